"""Settings: from the command line, the environment, a file, or the default, in that order."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tidemark.controller.base.db.database import Database
from tidemark.controller.base.settings import ConfigurationError, Settings, load_settings
from tidemark.controller.tools.cli import app


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away what the machine's environment says."""
    for name in Settings.model_fields:
        monkeypatch.delenv(f"TIDEMARK_{name.upper()}", raising=False)
    monkeypatch.delenv("TIDEMARK_CONFIG", raising=False)


def written(folder: Path, text: str) -> Path:
    path = folder / "tidemark.toml"
    path.write_text(text, encoding="utf-8")
    return path


def run(*arguments: str, **environment: str) -> Result:
    return CliRunner().invoke(app, list(arguments), env=environment, prog_name="tidemark")


def test_the_command_line_goes_before_the_environment_before_the_file_before_the_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, 'port = 1\nhost = "a"\ntick_seconds = 2\n')
    monkeypatch.setenv("TIDEMARK_PORT", "2")
    monkeypatch.setenv("TIDEMARK_HOST", "b")
    found = load_settings({"port": 3}, file)
    settings = found.settings
    assert (settings.port, settings.host, settings.tick_seconds, settings.log_level) == (3, "b", 2, "info")
    assert [found.sources[name] for name in ("port", "host", "tick_seconds", "log_level")] == [
        "command line",
        "environment",
        "file",
        "default",
    ]


def test_the_environment_may_name_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEMARK_CONFIG", str(written(tmp_path, "port = 7\n")))
    assert load_settings().settings.port == 7
    other = tmp_path / "other.toml"
    other.write_text("port = 8\n")
    assert load_settings(file=other).settings.port == 8


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_can_stand_in_the_file(name: str, tmp_path: Path) -> None:
    default = Settings.model_fields[name].default
    if default is None:
        pytest.skip("TOML has no word for none: the key is left out")
    text = f'"{default}"' if isinstance(default, str) else str(default).lower()
    found = load_settings(file=written(tmp_path, f"{name} = {text}\n"))
    assert getattr(found.settings, name) == default
    assert found.sources[name] == "file"


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("prot = 1", "there is no setting 'prot'; the nearest is 'port'"),
        ("TIDEMARK_PORT = 1", "there is no setting 'TIDEMARK_PORT'"),
        ("[server]\nport = 1", "there is no setting 'server'"),
        ("port = 70000", "port is 70000: it must be at most 65,535"),
        ("port = ", "is not TOML"),
        ('log_format = "xml"', "log_format is 'xml'"),
        ("database_url = 5", "database_url is ***"),
        ('proxy_addresses = "nowhere"', "'nowhere' is neither an address nor a network"),
        ('proxy_user_header = "X-User"', "proxy_user_header needs proxy_addresses"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_the_key(tmp_path: Path, text: str, body: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigurationError) as raised:
        load_settings(file=file)
    assert body in str(raised.value)
    assert str(file) in str(raised.value) or "needs" in body


def test_a_file_that_is_nested_too_deeply_is_one_line(tmp_path: Path) -> None:
    file = written(tmp_path, "port = " + "[" * 20_000)
    done = run("settings", "--config", str(file))
    assert (done.exit_code, done.stderr) == (2, f"tidemark: settings file {file} is nested too deeply\n")


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("TIDEMARK_DATABASE_URI", "TIDEMARK_DATABASE_URL"),
        ("TIDEMARK_DB_URL", "TIDEMARK_DATABASE_URL"),
        ("TIDEMARK_TICK_SECOND", "TIDEMARK_TICK_SECONDS"),
        ("tidemark_hosts", "TIDEMARK_HOST"),
        ("TIDEMARK_LISTEN_PORT", "TIDEMARK_PORT"),
    ],
)
def test_a_misspelt_variable_is_refused_with_the_nearest_name(
    variable: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A controller that silently used a file of its own beside the database would look healthy."""
    monkeypatch.setenv(variable, "postgresql://db/tidemark")
    done = run("settings")
    assert done.exit_code == 2
    assert done.stderr == f"tidemark: {variable.upper()} is not a setting; did you mean {meant}?\n"


def test_variables_of_clients_of_tools_and_of_kubernetes_are_not_mistaken_for_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kubernetes names those of a service after it, and both services of a release begin with tidemark."""
    for name in ("TIDEMARK", "TIDEMARK_POSTGRES"):
        monkeypatch.setenv(f"{name}_SERVICE_HOST", "10.0.0.1")
        monkeypatch.setenv(f"{name}_SERVICE_PORT", "8642")
        monkeypatch.setenv(f"{name}_SERVICE_PORT_HTTP", "8642")
        monkeypatch.setenv(f"{name}_PORT_8642_TCP", "tcp://10.0.0.1:8642")
        for part in ("PROTO", "PORT", "ADDR"):
            monkeypatch.setenv(f"{name}_PORT_8642_TCP_{part}", "x")
    monkeypatch.setenv("TIDEMARK_POSTGRES_PORT", "tcp://10.0.0.2:5432")
    for name in ("URL", "TOKEN", "JARS", "TOOLS", "TRACES", "TEST_PICTURES", "BENCH_STREAMS"):
        monkeypatch.setenv(f"TIDEMARK_{name}", "x")
    monkeypatch.setenv("_TIDEMARK_COMPLETE", "x")
    assert load_settings().settings.port == 8642


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+psycopg"])
def test_the_url_of_postgresql_may_be_written_as_other_programs_have_it(scheme: str) -> None:
    assert Database(f"{scheme}://kim:secret@db/name").name == "postgresql+psycopg://kim:***@db/name"


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    done = run("settings", "--config", str(tmp_path / "none.toml"))
    assert done.exit_code == 2
    assert done.stderr == f"tidemark: settings file {tmp_path / 'none.toml'}: No such file or directory\n"


def test_a_value_of_the_environment_is_named_as_it_stands_there() -> None:
    done = run("settings", TIDEMARK_PORT="many")
    assert done.exit_code == 2
    assert done.stderr.startswith("tidemark: TIDEMARK_PORT is 'many': ")


def test_the_settings_in_force_are_shown_with_their_source_and_without_passwords(tmp_path: Path) -> None:
    file = written(tmp_path, "tick_seconds = 2.0\n")
    url = "postgresql+psycopg://kim:hunter2@db/name"
    done = run("settings", "--config", str(file), TIDEMARK_DATABASE_URL=url)
    assert done.exit_code == 0
    assert "hunter2" not in done.output
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in done.stdout.splitlines()}
    assert set(rows) == {"setting", *Settings.model_fields}
    assert rows["database_url"].split() == ["postgresql+psycopg://kim:***@db/name", "environment"]
    assert rows["tick_seconds"].split() == ["2.0", "file", str(file)]
    assert rows["port"].split() == ["8642", "default"]


def test_passwords_in_the_query_of_a_url_are_masked_too() -> None:
    """Drivers take them there."""
    url = "postgresql+psycopg://kim@db/name?password=hunter2&sslmode=require&sslpassword=hunter3"
    done = run("settings", TIDEMARK_DATABASE_URL=url)
    assert "hunter" not in done.output
    assert "postgresql+psycopg://kim@db/name?password=***&sslmode=require&sslpassword=***" in done.stdout


def test_a_url_that_cannot_be_understood_is_masked_whole() -> None:
    done = run("settings", TIDEMARK_DATABASE_URL="nonsense with a secret")
    assert "secret" not in done.output
    assert "***" in done.stdout
