"""The documents that ``tidemark apply`` reads: what they mean, and how each mistake is named."""

# ruff: noqa: E501 - what is said is easier to read in one line

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tidemark.controller.server.schemas.specs import SloAnswer
from tidemark.controller.tools.documents.documents import (
    DocumentsInvalidError,
    own_document,
    read_documents,
    without_defaults,
)
from tidemark.controller.tools.documents.openslo import documents_text, openslo_documents
from tidemark.models.specs.slo import Policy, Slo

SLO = """
apiVersion: openslo/v1
kind: SLO
metadata:
  name: shop-clicks
  annotations: {tidemark/job: shop, tidemark/stream: clicks, tidemark/latency_cap_ms: "900000"}
spec:
  service: shop
  indicatorRef: shop-clicks
  budgetingMethod: Occurrences
  timeWindow: [{duration: 7d, isRolling: true}]
  objectives: [{target: 0.995}]
"""
SLICES = SLO.replace("Occurrences", "Timeslices").replace(
    "target: 0.995", "targetPercent: 99, timeSliceTarget: 0.995, timeSliceWindow: 1m"
)
POLICY = """
apiVersion: tidemark/v1
kind: Policy
spec:
  job: shop
  stream: clicks
  mode: Off
  max_bound_ms: 600_000
  freeze_windows: [{days: [Mon, Tue], from_minute: 480, to_minute: 1080}]
"""
JOIN = """
apiVersion: tidemark/v1
kind: Join
spec: {job: shop, join: pairs, streams: [clicks, views], target_ppm: 990000}
"""


def problem(*texts: str) -> str:
    with pytest.raises(DocumentsInvalidError) as raised:
        read_documents((f"{number}.yaml", text) for number, text in enumerate(texts, 1))
    (found,) = raised.value.problems
    return found


def test_documents_state_a_specification_whole_and_only_a_pause_is_left_open() -> None:
    slo, policy, join = read_documents([("a.yaml", f"{SLO}---{POLICY}"), ("b.yaml", JOIN)])
    assert slo.key == ("SLO", "shop", "clicks")
    assert slo.fields == asdict(Slo(target_ppm=995_000, latency_cap_ms=900_000, window_ms=7 * 86_400_000))
    assert (policy.where, policy.fields["mode"], policy.fields["max_bound_ms"]) == (
        "a.yaml, document 2",
        "Off",
        600_000,
    )
    assert asdict(Policy()).keys() - policy.fields.keys() == {"paused"}
    assert (join.key, join.fields["streams"]) == (("Join", "shop", "pairs"), ["clicks", "views"])
    (paused,) = read_documents([("c", POLICY.replace("mode: Off", "paused: true"))])
    assert paused.fields["paused"] is True


def test_timeslices_are_windows_of_which_a_share_reaches_the_target() -> None:
    (slo,) = read_documents([("a", SLICES)])
    fields = slo.fields
    assert (fields["objective"], fields["target_ppm"], fields["good_windows_ppm"]) == (
        "timeslices",
        995_000,
        990_000,
    )


@pytest.mark.parametrize(
    "kind", ["Service", "SLI", "AlertPolicy", "AlertCondition", "AlertNotificationTarget"]
)
def test_what_an_slo_refers_to_may_stand_beside(kind: str) -> None:
    text = f"{{apiVersion: openslo/v1, kind: {kind}, metadata: {{name: shop}}, spec: {{}}}}"
    assert read_documents([("a", f"---\n---\n{text}\n")]) == []


def test_documents_may_stand_in_one_list_as_openslo_s_own_library_writes_them() -> None:
    listed = f"[{json.dumps(yaml.safe_load(SLO))}, {json.dumps(yaml.safe_load(JOIN))}]"
    slo, join = read_documents([("a.json", listed)])
    assert (slo.where, join.where) == ("a.json, document 1, item 1", "a.json, document 1, item 2")
    assert (slo.fields["target_ppm"], join.fields["target_ppm"]) == (995_000, 990_000)


@pytest.mark.parametrize("written", ["op: gte, target: 0.995", "compositeWeight: 1, target: 0.995"])
def test_what_says_no_more_than_the_target_is_taken(written: str) -> None:
    (plain,) = read_documents([("a", SLO)])
    (found,) = read_documents([("a", SLO.replace("target: 0.995", written))])
    assert found == plain


def test_a_window_of_the_calendar_is_taken_as_a_rolling_one_and_said() -> None:
    calendar = "isRolling: false, calendar: {startTime: 2026-01-01 00:00:00, timeZone: Europe/Berlin}"
    (found,) = read_documents([("a", SLO.replace("isRolling: true", calendar))])
    assert found.fields["window_ms"] == 7 * 86_400_000
    (note,) = found.notes
    assert note.startswith("/spec/timeWindow/0: the budget is that of the last 7d at any time")


@pytest.mark.parametrize(
    "policy", ["alertPolicyRef: page", "kind: AlertPolicy, spec: {alertWhenBreaching: true}"]
)
def test_alert_policies_are_left_to_other_tools_and_that_is_said(policy: str) -> None:
    (found,) = read_documents([("a", f"{SLO}  alertPolicies: [{{{policy}}}]\n")])
    assert found.notes == ("/spec/alertPolicies is not read: Tidemark has alerts of its own",)
    (without,) = read_documents([("a", f"{SLO}  alertPolicies:\n")])
    assert without.notes == ()


def test_all_that_is_wrong_with_an_slo_is_said_at_once() -> None:
    text = SLO.replace("tidemark/stream", "stream").replace("7d", "1Q").replace("target", "op: lt, target")
    said = problem(text).split("; ")
    assert [place for each in said if (place := each.partition(": ")[0]).startswith("/")] == [
        "/spec/timeWindow/0/duration",
        "/spec/objectives/0/op",
    ]
    assert "tidemark/stream is missing" in said[0]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "1.yaml: line 1, column 5: a value is missing here"),
        ("a: 1\na: 2", "1.yaml: line 2, column 1: the key 'a' stands twice"),
        ("? [a]\n: 1", "1.yaml: line 1, column 3: a key is a text; a template, {{ ... }}, has to be filled in first"),
        ("a: \x00", "1.yaml: character 4: no text may have U+0000; save the file as UTF-8"),
        ("a text", "1.yaml, document 1: a document is a mapping with apiVersion and kind"),
        ("kind: Policy", "/apiVersion: it is missing; write an SLO as openslo/v1, a policy or a join as tidemark/v1"),
        ("{apiVersion: pyrra.dev/v1alpha1}", "/apiVersion: pyrra.dev/v1alpha1 is not read; write an SLO as openslo/v1"),
        ("{apiVersion: tidemark/v1, kind: Slo}", "/kind: 'Slo' is neither 'Policy' nor 'Join'"),
        ("{apiVersion: tidemark/v1, kind: Policy}", "/spec: it is missing"),
        ("{apiVersion: openslo/v1, kind: Slo}", "/kind: Slo is no kind of OpenSLO; write SLO"),
        ("[[a]]", "1.yaml, document 1, item 1: a document is a mapping with apiVersion and kind"),
        (POLICY + "mode: Live", "/mode: there is no such field; those of a Policy stand under spec"),
        (POLICY.replace("shop", "7"), "/spec/job: give the name of the job as a text"),
        (POLICY.replace("shop", "a/b"), "'a/b': a name cannot contain a slash"),
        (POLICY.replace("600_000", "10 min"), "/spec/max_bound_ms: it must be a whole number, not '10 min'; or write max_bound, such as \"1 h\""),
        (POLICY.replace("600_000", "0.5"), "/spec/max_bound_ms: it must be a whole number, not '0.5'"),
        (POLICY.replace("max_bound_ms: 600_000", "max_bound: 600"), "/spec/max_bound: 600 has no unit; write it like '1 h', or as max_bound_ms"),
        (POLICY.replace("max_bound_ms", "max_bounds"), "/spec/max_bounds: there is no such field; did you mean 'max_bound"),
        (POLICY.replace("mode: Off", "mode: off"), "/spec/mode: it must be 'Off', 'OnRestart', 'Restart' or 'Live', not 'off'"),
        (POLICY.replace("1080", "480"), "/freeze_windows/0/to_minute: to_minute 480 is not after from_minute 480"),
        (JOIN.replace("views", "clicks"), "/spec/streams: streams clicks, clicks: each is named once"),
        (SLO.replace("openslo/v1", "openslo/v1alpha"), "openslo/v1alpha is another version of OpenSLO; write "),
        (SLO.replace("openslo/v1", "openslo.com/v2alpha"), "/apiVersion: openslo.com/v2alpha is another version"),
        (SLO.replace("tidemark/job", "team"), "tidemark/job is missing; write the job that the SLO is for, such as {"),
        (SLO.replace("tidemark/", ""), "tidemark/job and tidemark/stream are missing; write the job and the stream"),
        (SLO.replace("latency_cap_ms", "latency_cap"), "tidemark/latency_cap is not one of tidemark/latency_cap_ms, "),
        (SLO.replace('"900000"', '"15 min"'), "latency_cap_ms: '15 min' is not a whole number"),
        (SLO.replace("0.995", "0.9950001"), "/spec/objectives/0/target: 0.9950001 is finer than one part per million"),
        (SLO.replace("0.995", ".inf"), "/spec/objectives/0/target: it must be a number, not '.inf'"),
        (SLO.replace("target", "op: lt, target"), "/op: lt: completeness is to be at least the target; leave op out"),
        (SLO.replace("target", "op: lt, value: 500, target"), "write only the share as target, without op and value"),
        (SLO.replace("[{target: 0.995}", "[{target: 0.9}, {target: 0.8}"), "a stream has one objective, not 2; keep"),
        (SLO.replace("target: 0.995", ""), "/spec/objectives/0: give target, such as 0.995, or targetPercent"),
        (SLO.replace("0.995", "1"), "/spec/objectives/0/target: 1 must lie between 0 and 1, both excluded"),
        (SLO.replace("0.995", "99.5"), "; in percent write targetPercent: 99.5"),
        (SLO.replace("7d", "1M"), "'1M' is not a number of m, h, d or w up to 31 days; write days, such as 30d"),
        (SLO.replace("7d", "32d"), "/spec/timeWindow/0/duration: '32d' is not a number of m, h, d or w up to 31 days"),
        (SLO.replace("[{duration", "[{duration: 1d}, {duration"), "/spec/timeWindow: an SLO has one window, not 2"),
        (SLO.replace("Occurrences", "RatioTimeslices"), "the mean over time slices is not judged; write"),
        (SLICES.replace("1m", "5m"), "/timeSliceWindow: 5m: a slice is a window of the job, as long"),
        (SLO.replace("Occurrences", "Timeslices"), "/spec/objectives/0/timeSliceTarget: it is missing"),
        (SLO.replace("0.995", "0.995, timeSliceTarget: 0.9"), "it belongs to budgetingMethod Timeslices"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_names_the_place(text: str, said: str) -> None:
    assert said in problem(text)


def test_all_mistakes_of_all_files_are_named() -> None:
    with pytest.raises(DocumentsInvalidError) as raised:
        read_documents([("a", f"{SLO.replace('7d', '7')}---{POLICY}"), ("b", POLICY), ("c", "a: [")])
    assert [found.partition(":")[0] for found in raised.value.problems] == [
        "a, document 1",
        "b, document 1",
        "c",
    ]
    assert "Policy shop/clicks stands in a, document 2 too" in raised.value.problems[1]


shares = st.integers(1, 999_999)
caps = st.none() | st.integers(0, 2**53)


@given(
    st.builds(
        Slo,
        target_ppm=shares,
        latency_cap_ms=caps,
        on_conflict=st.sampled_from([None, "miss_target", "exceed_latency_cap", "exceed_state_cap"]),
        confidence_ppm=shares,
        horizon_ms=st.integers(1, 31 * 86_400_000),
        objective=st.sampled_from(["occurrences", "timeslices"]),
        good_windows_ppm=st.integers(1, 1_000_000),
        window_ms=st.integers(1, 31 * 86_400_000) | st.sampled_from([60_000, 7 * 86_400_000]),
        state_cap_rows=caps,
        worst_window_ppm=st.none() | shares,
    )
)
def test_an_exported_slo_is_read_back_as_it_was(slo: Slo) -> None:
    answer = SloAnswer(**asdict(slo), generation=1, updated_us=0)
    (found,) = read_documents([("a", documents_text(openslo_documents([("shop", "clicks", answer)])))])
    assert (found.key, found.fields) == (("SLO", "shop", "clicks"), asdict(slo))


@pytest.mark.parametrize(
    "fields", [{"mode": "Off", "margin_ppm": 5}, {"mode": "Live", "directions": ["Widen"]}]
)
def test_an_exported_policy_is_read_back_without_what_is_default(fields: dict[str, Any]) -> None:
    given = without_defaults("Policy", fields)
    assert ("mode" in given) == (fields["mode"] != "Off")
    text = documents_text([own_document("Policy", "shop", "clicks", given)])
    (found,) = read_documents([("a", text)])
    assert {name: found.fields[name] for name in fields} == fields
