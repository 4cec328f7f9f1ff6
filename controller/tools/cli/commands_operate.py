"""The commands that operate a controller: each is a row."""

from __future__ import annotations

from tidemark.controller.tools.cli.parameters import (
    CONFIG,
    DATABASE,
    DRY_RUN,
    JOB,
    NEEDED_REASON,
    STREAM,
    TOKEN_FILE,
    URL,
)
from tidemark.controller.tools.cli.shape import PATH, Whole, arg, opt, row, several

_STORE = opt(
    "--database-url",
    "Work in the store itself, without a controller: for the first token. Default: the store that "
    "TIDEMARK_DATABASE_URL or TIDEMARK_CONFIG names, if neither an address nor a token is given.",
)
_OF_TOKENS = (URL, TOKEN_FILE, _STORE)
_ROLE = opt("--role", "What the holder may do.", ("viewer", "job", "operator", "admin"), required=True)
_HOLDER = arg("name", "Name of the holder of the token.")

OPERATE = (
    row(
        "serve",
        "serve:serve",
        "Run the controller: the REST API, the decision loop and the metrics, in one process.",
        opt("--host", "Address to listen on (TIDEMARK_HOST)."),
        opt("--port", "Port to listen on; 0 takes a free one (TIDEMARK_PORT).", Whole(0, 65_535)),
        DATABASE,
        CONFIG,
        opt("--check", "Show the settings in force and their sources, and exit.", bool),
        kind="plain",
    ),
    row(
        "mcp",
        "mcp_server:mcp",
        """Serve a controller to agents over standard input and output (MCP); they can read, and change nothing.

        Give it the token of a viewer.
        """,
        URL,
        TOKEN_FILE,
        kind="plain",
        extra="mcp",
    ),
    row(
        "token create",
        "token:create",
        """Create a token and print it.

        Standard output holds the token alone. It is shown only once.
        """,
        arg("name", "Name of the holder. Default: the name of the role.", required=False),
        _ROLE,
        several(
            "--job",
            "Pattern of the jobs that it is valid for, such as 'shop-*'; may be repeated. Default: all.",
        ),
        opt("--expires", "How long it is valid, such as '90 days'. Default: without end."),
        *_OF_TOKENS,
        kind="answer",
    ),
    row(
        "token mint",
        "token:mint",
        """Print a new token that no store knows yet.

        It is for a file of the folder TIDEMARK_FIRST_TOKENS, whose tokens a new store begins with.
        """,
        _ROLE,
        kind="plain",
    ),
    row(
        "token list",
        "token:list_tokens",
        "List the tokens, expired and revoked ones too.",
        *_OF_TOKENS,
        kind="answer",
    ),
    row(
        "token rotate",
        "token:rotate",
        """Create a second token of the same name, role, jobs and lifetime.

        The first stays valid until it is revoked.
        """,
        _HOLDER,
        *_OF_TOKENS,
        kind="answer",
    ),
    row(
        "token revoke",
        "token:revoke",
        """Revoke a token.

        When two of the name are valid, it is the one that was created first, unless --id names the other.
        """,
        _HOLDER,
        opt("--id token_id", "Number of the token, when the name has several.", Whole(min=1)),
        *_OF_TOKENS,
        kind="answer",
    ),
    row(
        "settings",
        "store:settings",
        "Show the settings in force and where each comes from; passwords are masked.",
        CONFIG,
        kind="answer",
    ),
    row(
        "backup",
        "store:backup",
        "Write a whole and checked copy of a SQLite store to a file, while the controller runs.",
        arg("file", "File to write; it must not exist.", type=PATH),
        DATABASE,
        CONFIG,
        kind="plain",
    ),
    row(
        "restore",
        "store:restore",
        """Replace the store by a backup, and give it a new epoch; every controller must be stopped.

        A backup that is not whole, or a store that is in use, is refused, and the store stays as it was. Without a
        file it is for a store that was put there by other means: pg_restore, a snapshot of its disk. What jobs and
        people hold of another history is then out of date: every job is answered in full, and a write that rests on an
        older reading is rejected.
        """,
        arg(
            "file",
            "What tidemark backup wrote; without it, the store is taken as it is.",
            type=PATH,
            required=False,
        ),
        DATABASE,
        CONFIG,
        kind="plain",
    ),
    row(
        "adopt",
        "streams:adopt",
        "Let a stream that began anew go on as the one that it was, with its SLO, approvals and history.",
        JOB,
        STREAM,
        arg("former", "Name of the stream that it was."),
        NEEDED_REASON,
        DRY_RUN,
    ),
    row(
        "forget",
        "streams:forget",
        "Delete a stream with all of its data; it cannot be undone.",
        JOB,
        STREAM,
        NEEDED_REASON,
        opt(
            "--while-reporting",
            "Delete it although its job still reports; it begins anew with the next report.",
            bool,
        ),
        DRY_RUN,
    ),
    row(
        "spark-conf",
        "fleet_conf:spark_conf",
        """Print the conf that lets every job of a fleet be watched, with no line of a job changed.

        `tidemark doctor --conf FILE` checks a spark-defaults.conf where it is to be used.
        """,
        opt(
            "--for form",
            "defaults: spark-defaults.conf; submit: options of spark-submit; operator: a SparkApplication of the "
            "Spark operator; databricks: a cluster.",
            ("defaults", "submit", "operator", "databricks"),
            default="defaults",
        ),
        opt("--jar", "Tidemark's jar, as the driver finds it. Default: the one that is installed here."),
        opt("--python", "The driver's Python that has Tidemark. Default: the one that runs this command."),
        several("--conf", "More conf of Tidemark; may be repeated.", metavar="KEY=VALUE"),
        URL,
        TOKEN_FILE,
        kind="plain",
    ),
)
