"""Mistakes that a new user makes, and what each is answered: what was written, what is wrong, and the way out."""

# ruff: noqa: E501 - what is said is easier to read in one line

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.controller_app import Controller
from support.mistakes import Command, Files, Request, answer_to, report_shop
from support.served import served
from support.tokens import make_token

SLO = """apiVersion: openslo/v1
kind: SLO
metadata:
  name: shop-clicks
  annotations: {{tidemark/job: shop, tidemark/stream: {stream}}}
spec:
  budgetingMethod: Occurrences
  objectives: [{{{objective}}}]
"""

POLICY = """apiVersion: tidemark/v1
kind: Policy
spec: {{job: shop, stream: clicks, {fields}}}
"""

ORDERS = "/v1/jobs/shop/streams/orders/slo"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return the address of a controller to which clicks, clicks_eu and orders of job shop have reported."""
    store = tmp_path_factory.mktemp("mistakes") / "tidemark.db"
    with Controller(f"sqlite:///{store}") as controller:
        report_shop(controller)
        with served(controller.app) as found:
            yield found


@pytest.mark.parametrize(
    ("line", "code", "says"),
    [
        (
            "slo set shop click --target 0.995",
            1,
            "nothing is known of stream 'click' of job 'shop': no report came, no SLO or policy was set; did you mean 'clicks'? (--create sets it before the first report)",
        ),
        (
            "slo set shpo clicks --target 0.995",
            1,
            "there is no job 'shpo'; did you mean 'shop'? (--create sets it before the first report)",
        ),
        (
            "slo set shop clicks --target 99.5",
            2,
            "--target: '99.5' must lie between 0 and 1, both excluded; in percent write '99.5%'",
        ),
        (
            "slo set shop clicks --target 99,5%",
            2,
            "--target: '99,5%' is not a number such as '99.5%' or '0.995'",
        ),
        (
            "slo set shop clicks --targt 0.995",
            2,
            "there is no option --targt; did you mean --target? (`tidemark slo set --help` shows how)",
        ),
        ("slo set shop orders --confidence 0.9", 1, "--target: it is missing"),
        (
            "status shop click",
            1,
            "nothing is known of stream 'click' of job 'shop': no report came, no SLO or policy was set; did you mean 'clicks'?",
        ),
        (
            "status shop views",
            1,
            "nothing is known of stream 'views' of job 'shop': no report came, no SLO or policy was set; there are clicks, clicks_eu, orders",
        ),
        ("status shpo", 1, "there is no job 'shpo'; did you mean 'shop'?"),
        ("status clicks", 1, "there is no job 'clicks'; 'clicks' is a stream of job 'shop': name both"),
        ("statsu", 2, "no such command 'statsu'; did you mean 'status'? (`tidemark --help` shows how)"),
        (
            "approve",
            2,
            "--reason: say why; the event records it; and name ROLLOUT or --all (`tidemark approve --help` shows how)",
        ),
        (
            "pin --to off",
            2,
            "--reason: say why; the event records it; and name JOB, JOB and STREAM, or --fleet (`tidemark pin --help` shows how)",
        ),
        ("approve 1", 2, "--reason: say why; the event records it (`tidemark approve --help` shows how)"),
        ("approve 7 --reason x", 1, "there is no rollout 7; `tidemark rollouts --all` lists all"),
        (
            "status --url localhost:8642",
            1,
            "'localhost:8642' is not an address that can be called; write it like http://127.0.0.1:8642",
        ),
        ("status shpo --url URL/v1", 1, "there is no job 'shpo'; did you mean 'shop'?"),
        ("--url URL status", 2, "--url stands behind the command: tidemark status --url ..."),
        ("--urk URL", 2, "there is no option --urk (`tidemark --help` shows how)"),
        (
            "slo set shop clicks --target 101%",
            2,
            "--target: '101%' must lie between 0% and 100%, both excluded; such as '0.995', '99.5%' or 995000 (ppm)",
        ),
        ("slo set shop clicks --confidence 101%", 2, "--confidence: '101%' is more than 100%"),
        (
            "policy set shop clicks --mode Auto",
            2,
            "--mode: 'Auto' is not one of Off, OnRestart, Restart, Live (`tidemark policy set --help` shows how)",
        ),
        (
            "policy set shop clicks --max-bound '10 sek'",
            2,
            "--max-bound: duration '10 sek': unknown unit 'sek'; use one of us, ms, s, m, h, d, w",
        ),
        (
            "events --since yesterday",
            2,
            "--since: duration 'yesterday': expected something like '10 minutes', '5s' or '250ms'",
        ),
        (
            "policy set shop clicks --max-bound 10sec --min-bound 600",
            1,
            "600 is read as 600 s: it has no unit\ntidemark: --max-bound, 10 s, is below --min-bound, 10 min",
        ),
        (
            "policy set shop clicks --freeze 'weekdays 8-18'",
            2,
            "--freeze: 'weekdays 8-18': expected something like 'Mon-Fri 08:00-18:00', 'Sat' or 'daily'",
        ),
        (
            "policy set shop clicks --gate deploys",
            1,
            "--gate: this controller has no outside gate 'deploys'; it has none; its operators add them to the file in TIDEMARK_GATES_FILE",
        ),
        (
            "join set shop pairs --streams clicks --target 0.99",
            1,
            "--streams: it must have at least 2 entries, not 1",
        ),
        (
            "join set shop pairs --streams clicks,orders --target 0.99",
            1,
            "stream 'orders' has no SLO; set one first: its caps, its confidence and its budget hold beside the join's",
        ),
        (
            "events --kind RolledBack",
            1,
            "no event is of kind 'RolledBack'; there are RecommendationChanged, SloSet, StreamRegistered",
        ),
        (
            "rollouts --state waiting",
            2,
            "--state 'waiting' is not a state; use one of Recommended, AwaitingApproval, Published, Acknowledged, Effective, Verified, RolledBack, Superseded, Expired, Discarded",
        ),
        (
            "pin shop --to 30s --reason x",
            2,
            "--to: '30s' is not one of ceiling, off (`tidemark pin --help` shows how)",
        ),
        ("export shpo", 1, "there is no job 'shpo'; did you mean 'shop'?"),
        (
            "export shop click",
            1,
            "nothing is known of stream 'click' of job 'shop': no report came, no SLO or policy was set; did you mean 'clicks'?",
        ),
        ("join get shop pairs", 1, "job 'shop' has no join 'pairs'"),
        ("join get shpo pairs", 1, "there is no job 'shpo'; did you mean 'shop'?"),
        ("slo delete shop orders", 1, "stream 'orders' of job 'shop' has no SLO; set one first"),
        (
            "unpin shop orders --reason x",
            1,
            "there is no pin on stream 'orders' of job 'shop'; `tidemark pins` (GET /v1/pins) lists those there are",
        ),
        (
            "forget shop clicks --reason x",
            1,
            "the job of stream 'clicks' of job 'shop' still reports: it was last seen 0 s ago. Stop it first, or say whileReporting=true (--while-reporting): then the stream begins anew with its next report",
        ),
        (
            "policy set shop clicks --max-narrowing 50",
            2,
            "--max-narrowing: '50' is more than 1; in percent write '50%'",
        ),
        (
            "slo set shop clicks --confidence 95",
            2,
            "--confidence: '95' is more than 1; in percent write '95%'",
        ),
        ("policy set shop clicks --cooldown", 2, "--cooldown: its value is missing"),
        (
            "events --limit ten",
            2,
            "--limit: it must be a whole number (`tidemark events --help` shows how)",
        ),
        (
            "serve --port 70000",
            2,
            "--port: it must be at most 65535 (`tidemark serve --help` shows how)",
        ),
        (
            "serve --database-url sqlite:////no/such/folder/t.db",
            2,
            "database sqlite:////no/such/folder/t.db: there is no folder /no/such/folder",
        ),
        (
            "doctor shop clicks more",
            2,
            "more: more arguments than it takes (`tidemark doctor --help` shows how)",
        ),
        (
            "status --url http://127.0.0.1:1",
            1,
            "the controller at http://127.0.0.1:1 cannot be reached: nothing listens there; is `tidemark serve` running there? --url names another address",
        ),
        (
            "status --url HTTPS",
            1,
            "what is at HTTPS does not speak https; write URL",
        ),
        ("curve shop", 2, "there is no trace shop; of a stream name both: tidemark curve shop STREAM"),
        ("backtest shop", 2, "there is no trace shop; of a stream name both: tidemark backtest shop STREAM"),
        (
            "trace shop clicks -o t.parquet",
            2,
            "there is no file shop; for a trace of JOB STREAM add --from controller",
        ),
        (
            f"backtest {__file__}",
            2,
            f"{__file__}: not a Parquet file; `tidemark trace` makes one",
        ),
        ("savings shpo", 1, "there is no job 'shpo'; did you mean 'shop'?"),
    ],
)
def test_a_slip_on_the_command_line_is_one_line_in_its_own_words(
    url: str, line: str, code: int, says: str
) -> None:
    assert answer_to(Command(line), url) == (code, f"tidemark: {says}")


@pytest.mark.parametrize("command", ["curve", "backtest"])
def test_a_folder_beside_is_no_trace(
    url: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop").mkdir()
    monkeypatch.chdir(tmp_path)
    says = f"tidemark: there is no trace shop; of a stream name both: tidemark {command} shop STREAM"
    assert answer_to(Command(f"{command} shop"), url) == (2, says)


def test_a_pin_on_a_job_that_nobody_knows_says_which_one_is_meant(url: str) -> None:
    assert answer_to(Command("pin shpo --to off --reason x --dry-run"), url) == (
        0,
        "would pin job shpo to Off: x\n  no stream of it is known yet; there is no job 'shpo'; did you mean 'shop'?",
    )


def test_a_token_that_is_none_is_one_line_that_says_where_to_name_another(tmp_path: Path) -> None:
    with Controller(f"sqlite:///{tmp_path / 'tidemark.db'}") as controller:
        make_token(controller)
        with served(controller.app) as url:
            code, says = answer_to(Command("status", token="wrong"), url)
    assert (code, says) == (
        1,
        "tidemark: the controller at URL answers 401: this is not a Tidemark token: it is cut off or mistyped; name a token of this controller by --token-file or TIDEMARK_TOKEN, or run tidemark login",
    )


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (
            SLO.format(stream="clicks", objective="target: 99.5"),
            2,
            "/spec/objectives/0/target: 99.5 must lie between 0 and 1, both excluded; in percent write targetPercent: 99.5",
        ),
        (
            SLO.format(stream="clicks", objective="targets: 0.995"),
            2,
            "/spec/objectives/0/targets: there is no such field",
        ),
        (
            SLO.format(stream="order", objective="target: 0.995"),
            0,
            "note: shop/order has not reported; what is set waits for its first report; did you mean 'orders'? (standard input, document 1)",
        ),
        (
            "apiVersion: tidemark/v1\nkind: Policy\nspec:\n  job: shop\n   stream: clicks\n",
            2,
            "line 5, column 10: this key is indented otherwise than those beside it, the line before lacks its colon, or a text with a colon lacks its quotes",
        ),
        (
            "apiVersion: tidemark/v1\nkind: Policy\nspec:\njob: shop\nstream: clicks\n",
            2,
            "/job: there is no such field; those of a Policy stand under spec",
        ),
        (
            "apiVersion: tidemark/v1\nkind: policy\nspec: {job: shop, stream: clicks}\n",
            2,
            "/kind: 'policy' is neither 'Policy' nor 'Join'; an SLO is a document of openslo/v1, as `tidemark export` prints it",
        ),
        (
            "apiVersion: tidemark/v1\nkind: SLO\nspec: {job: shop, stream: clicks, target: 0.995}\n",
            2,
            "/kind: 'SLO' is neither 'Policy' nor 'Join'; an SLO is a document of openslo/v1, as `tidemark export` prints it",
        ),
        (
            POLICY.format(fields="max_bound_ms: 10 min"),
            2,
            "/spec/max_bound_ms: it must be a whole number, not '10 min'; or write max_bound, such as \"1 h\"",
        ),
        (
            POLICY.format(fields="mode: onrestart"),
            2,
            "/spec/mode: it must be 'Off', 'OnRestart', 'Restart' or 'Live', not 'onrestart'",
        ),
        (
            POLICY.format(fields="min_bound_ms: 9000, max_bound_ms: 10"),
            2,
            "/spec/max_bound_ms: max_bound_ms, 10 ms, is below min_bound_ms, 9 s",
        ),
        (
            "apiVersion: tidemark/v1\nkind: Join\nspec: {job: shop, join: pairs, streams: [clicks], target_ppm: 990000}\n",
            2,
            "/spec/streams: it must have at least 2 entries, not 1",
        ),
        (POLICY.format(fields="labels: {team: }"), 2, "/spec/labels/team: it must be a text, not null"),
    ],
)
def test_a_slip_in_a_file_is_named_with_its_place_in_the_file(
    url: str, text: str, code: int, says: str
) -> None:
    found, line = answer_to(Files(text), url)
    assert (found, says in line, line.count("\n")) == (code, True, 0), line


@pytest.mark.parametrize(
    ("request_", "status", "says"),
    [
        (
            Request("PUT", ORDERS, '{"target_ppm": 0.995}'),
            422,
            '/target_ppm: it must be a whole number, not 0.995; or write target, such as "99.5%"',
        ),
        (
            Request("PUT", ORDERS, '{"target_ppm": "99.5%"}'),
            422,
            "/target_ppm: it must be a whole number, not '99.5%'; or write target, such as \"99.5%\"",
        ),
        (Request("PUT", ORDERS), 400, "the body is empty; send JSON"),
        (
            Request(
                "PUT", ORDERS, '{"target_ppm": 995000}', {"Content-Type": "application/x-www-form-urlencoded"}
            ),
            415,
            "the body must have the header Content-Type: application/json in UTF-8, not 'application/x-www-form-urlencoded'",
        ),
        (
            Request("PUT", "/v1/jobs/shop/streams/clicks/slo", '{"target_ppm": 995000}'),
            428,
            "this replaces generation 1: read it, and send",
        ),
        (
            Request("PUT", ORDERS, '{"target_ppm": 995000, "reason": "agreed"}'),
            422,
            "/reason: there is no such field; say it in the query, reason=...",
        ),
        (
            Request("PUT", f"{ORDERS}?dryRun=yes", '{"target_ppm": 995000}'),
            422,
            "dryRun: it must be 'true' or 'All', not 'yes'",
        ),
        (
            Request("PUT", f"{ORDERS}?dry_run=All", '{"target_ppm": 995000}'),
            422,
            "dry_run: there is no such parameter; did you mean dryRun?",
        ),
        (
            Request("PUT", ORDERS, "{target_ppm: 995000}"),
            400,
            'the body is not JSON: line 1, column 2: a name stands in double quotes, such as "target"',
        ),
        (
            Request("PUT", "/v1/jobs/shop/stream/orders/slo", '{"target_ppm": 995000}'),
            404,
            "there is nothing at /v1/jobs/shop/stream/orders/slo; did you mean /v1/jobs/shop/streams/orders/slo?",
        ),
        (Request("GET", "/v2/jobs"), 404, "there is nothing at /v2/jobs; did you mean /v1/jobs?"),
        (
            Request("GET", "/v1/jobs/shop/"),
            404,
            "there is nothing at /v1/jobs/shop/; did you mean /v1/jobs/shop?",
        ),
        (Request("GET", "/jobs"), 404, "there is nothing at /jobs; did you mean /v1/jobs?"),
        (
            Request("POST", ORDERS, '{"target_ppm": 995000}'),
            405,
            "/v1/jobs/shop/streams/orders/slo does not take POST, only DELETE, GET, PUT",
        ),
        (
            Request("GET", "/v1/jobs/shop/streams/click"),
            404,
            "nothing is known of stream 'click' of job 'shop': no report came, no SLO or policy was set; did you mean 'clicks'?",
        ),
        (
            Request("GET", "/v1/jobs/shpo/streams/clicks/curve"),
            404,
            "there is no job 'shpo'; did you mean 'shop'?",
        ),
        (Request("GET", "/v1/jobs/shpo"), 404, "there is no job 'shpo'; did you mean 'shop'?"),
        (
            Request("GET", "/v1/jobs/clicks"),
            404,
            "there is no job 'clicks'; 'clicks' is a stream of job 'shop': name both",
        ),
        (
            Request("PUT", ORDERS, '{"targetPpm": 995000}'),
            422,
            "/targetPpm: there is no such field; did you mean 'target_ppm'? (and 1 more)",
        ),
        (
            Request("POST", "/v1/jobs/shop/streams/clicks/rollouts/first:approve", '{"reason": "x"}'),
            404,
            "there is nothing at /v1/jobs/shop/streams/clicks/rollouts/first:approve; /openapi.json lists all paths",
        ),
        (
            Request("POST", "/v1/jobs/shop/streams/clicks/rollouts/1:approve", "{}"),
            422,
            "/reason: it is missing",
        ),
        (
            Request("PUT", "/v1/jobs/shop/streams/orders/policy", '{"mode": "onrestart"}'),
            422,
            "/mode: it must be 'Off', 'OnRestart', 'Restart' or 'Live', not 'onrestart'",
        ),
    ],
    ids=str,
)
def test_a_slip_in_a_request_is_said_in_the_detail_of_the_problem(
    url: str, request_: Request, status: int, says: str
) -> None:
    found, detail = answer_to(request_, url)
    assert found == status
    assert detail.startswith(says)


@pytest.mark.parametrize(
    ("mistake", "code"),
    [
        (Files(SLO.format(stream="clicks", objective="target: 99.5%")), 0),
        (Files(SLO.format(stream="clicks", objective="target: '0.995'")), 0),
        (Files(POLICY.format(fields="max_bound: 10 min, freeze_windows: [Mon-Fri 08:00-18:00]")), 0),
        (Request("PUT", f"{ORDERS}?dryRun=All", '{"target": "99.5%", "latency_cap": "15 min"}'), 200),
        (Request("PUT", f"{ORDERS}?dryRun=All", '{"target": 0.995}'), 200),
    ],
    ids=str,
)
def test_what_can_only_mean_one_thing_is_no_mistake(url: str, mistake: Files | Request, code: int) -> None:
    assert answer_to(mistake, url)[0] == code
