"""Java's regular expressions: every verdict below is that of java.util.regex."""

from __future__ import annotations

import contextlib
import gc
import threading
from typing import Any

import pytest
import regex

from connect.config import regex_budget
from connect.config.java_regex import JavaRegexError, compile_java_regex
from connect.errors import ConfigError

# pattern, names it matches whole, names it does not
VERDICTS = [
    (r".*", ["", "a", "a.b"], []),
    (r"mm2.*\.internal|.*\.replica|__.*", ["mm2-x.internal", "t.replica", "__t"], ["_t", "mm2"]),
    (r".*[\-\.]internal", ["foo-internal", "foo.internal"], ["foo_internal", "internal"]),
    (r"a++b", ["ab", "aab"], ["b"]),
    (r"a*+a", [], ["a", "aa"]),
    (r"(?>a|ab)c", ["ac"], ["abc"]),
    (r"a{1,2}+b", ["ab", "aab"], ["b", "aaab"]),
    (r"a{2}{3}", ["aaaaaa"], ["aa", "aaa"]),
    (r"^*a", ["a"], ["^a"]),
    (r"\p{Alpha}+", ["aB"], ["a1", "é"]),
    (r"\P{Alpha}+", ["1.", "é"], ["a"]),
    (r"\p{L}+", ["aB", "é"], ["1"]),
    (r"\pLx", ["ax"], ["1x"]),
    (r"\p{Lu}\p{Ll}*", ["Foo", "Été"], ["foo"]),
    (r"[\p{Lower}\d]+", ["a1"], ["A1"]),
    (r"\p{IsAlphabetic}+", ["é"], ["1"]),
    (r"\Qa.b\E.*", ["a.b", "a.bc"], ["axb"]),
    (r"\Qa.b", ["a.b"], ["axb"]),
    (r"[\Q^]\E]+", ["^]"], ["a"]),
    (r"[a-z&&[^aeiou]]+", ["xyz"], ["abc"]),
    (r"[a-c[x-z]]+", ["abcxyz"], ["d"]),
    (r"[^a-c[x-z]]+", ["def"], ["a", "x"]),
    (r"[]a]+", ["]", "a]"], ["b"]),
    (r"[a-]+", ["a-"], ["b"]),
    (r"[\d-x]+", ["1-x"], ["y"]),
    (r"[[:alpha:]]+", ["a:", "p"], ["b"]),
    (r"(?<n>a|b)\k<n>", ["aa", "bb"], ["ab"]),
    (r"(a)\11", ["aa1"], ["aa"]),
    (r"x(?i)abc", ["xabc", "xABC"], ["XABC"]),
    (r"a(?i)b|c", ["ab", "aB", "c", "C"], ["AB"]),
    (r"(a(?i)b|c)d", ["aBd", "Cd"], ["CD"]),
    (r"(?i:a)b", ["Ab"], ["AB"]),
    (r"\x41\u0042\x{43}\0104", ["ABCD"], ["abcd"]),
    (r"\w+", ["a_1"], ["é", "a-b"]),
    (r"[^\w]+", ["-."], ["a"]),
    (r"a}", ["a}"], []),
    (r"(?!b).*", ["ab"], ["ba"]),
    (r"", [""], ["a"]),
]


@pytest.mark.parametrize(("pattern", "matching", "others"), VERDICTS)
def test_patterns_mean_what_they_mean_in_java(
    pattern: str, matching: list[str], others: list[str]
) -> None:
    compiled = compile_java_regex(pattern)
    assert [name for name in matching if not compiled.fullmatch(name)] == []
    assert [name for name in others if compiled.fullmatch(name)] == []


@pytest.mark.parametrize(
    ("pattern", "reason", "position"),
    [
        ("*a", "Dangling meta character", 0),
        ("a**", "Dangling meta character", 2),
        ("a{", "Unclosed counted closure", 1),
        ("a{,2}", "Unclosed counted closure", 1),
        ("x{a}", "Unclosed counted closure", 1),
        ("{a}", "Illegal repetition", 0),
        ("a{2,1}", "Illegal repetition range", 1),
        ("a{99999999999}", "Illegal repetition range", 1),
        ("a{0," + "9" * 5_000 + "}", "Illegal repetition range", 1),
        ("x[a", "Unclosed character class", 1),
        ("x(a", "Unclosed group", 1),
        ("a)", "Unmatched closing", 1),
        ("\\y", "escape sequence", 0),
        ("a\\", "backslash", 1),
        ("[z-a]", "Illegal character range", 1),
        ("\\p{Foo}", "Unknown character property name {Foo}", 0),
        ("(?q)a", "Flag 'q'", 0),
        ("(?x)a b", "Flag 'x'", 0),
        ("(?<=a+)b", "look-behind", 0),
        ("\\Gx", "escape sequence", 0),
    ],
)
def test_a_wrong_or_impossible_pattern_says_what_and_where(
    pattern: str, reason: str, position: int
) -> None:
    with pytest.raises(JavaRegexError) as failed:
        compile_java_regex(pattern)
    assert reason in str(failed.value)
    assert failed.value.position == position


# Backtracking takes each of these exponentially long, or polynomially with a high power.
WORST = [
    (r"(a|aa)+", "a" * 80 + "b"),
    (r"((a+)\2*)+b", "a" * 249),
    (r"(a|a|b)+(a|a|b)+c\1", "ab" * 120),
    (r"(\w|\d|[a-z])+\.", "a" * 120),
]


@pytest.mark.parametrize(("pattern", "text"), WORST)
def test_other_threads_run_while_a_pattern_takes_too_long(pattern: str, text: str) -> None:
    ticks, ended = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not ended.wait(0.001):
            ticks += 1

    ticker = threading.Thread(target=tick)
    ticker.start()
    try:
        with contextlib.suppress(ConfigError):
            assert compile_java_regex(pattern).fullmatch(text) is None
    finally:
        ended.set()
        ticker.join()
    assert ticks > 10 or pattern != WORST[0][0]


def test_the_error_names_the_pattern_that_takes_too_long() -> None:
    pattern, text = WORST[0]
    with pytest.raises(ConfigError, match="needs too long to match") as caught:
        compile_java_regex(pattern).fullmatch(text)
    assert pattern in str(caught.value)


@pytest.mark.parametrize(
    "pattern",
    ["(" * 5000 + "a" + ")" * 5000, "(?:" * 101 + "a" + ")*" * 101, "[" * 5000 + "a" + "]" * 5000],
)
def test_deep_nesting_is_an_error(pattern: str) -> None:
    with pytest.raises(JavaRegexError, match="Nested more than 100 levels deep"):
        compile_java_regex(pattern)


def test_reasonable_nesting_is_none() -> None:
    assert compile_java_regex("(" * 100 + "a" + ")" * 100).fullmatch("a")


# The compiler writes out what has to occur. Each of these took seconds and hundreds of megabytes,
# and some all memory of the machine.
WRITTEN_OUT = {
    "a count": "(?:a|b){1000000}",
    "a count without end": "(?:a|b){1000000,}",
    "the largest count": "a{2147483647}",
    "counts inside counts": "(?:(?:(?:a){100}){100}){100}",
    "small counts inside each other": "(?:" * 12 + "a" + "){2}" * 12,
    "plus inside plus": "(" * 20 + "a" + ")+" * 20,
    "possessive": "(" * 20 + "a" + ")++" * 20,
    "from one to nine": "(?:" * 20 + "a" + "){1,9}" * 20,
    "look-aheads": "(?=" * 20 + "a" + ")+" * 20,
    "large classes": r"\p{L}{1000}",
    "empty alternatives": "(?:" + "|" * 1000 + "){1000}",
    "flags of many alternatives": "(?i)a|" * 1000,
}


@pytest.mark.parametrize("what", WRITTEN_OUT)
def test_repetitions_that_are_too_large_written_out_are_an_error(what: str) -> None:
    with pytest.raises(JavaRegexError, match="written out, it has more than 65536 characters"):
        compile_java_regex(WRITTEN_OUT[what])


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("(?:[0-9a-f]{8}-){4}x{12}", "0123abcd-" * 4 + "x" * 12),
        ("[a-z]{1,249}", "a" * 249),
        (r"\p{L}{20}", "é" * 20),
        ("a{0,2147483647}", "a" * 1000),
        ("(?:" * 99 + "a" + "){1}" * 99, "a"),
        ("(?:" * 99 + "a" + ")*" * 99, "aaa"),
        ("((a+)+b+)+", "aabab"),
    ],
)
def test_reasonable_repetitions_are_none(pattern: str, text: str) -> None:
    assert compile_java_regex(pattern).fullmatch(text)


def test_a_request_counts_its_patterns_written_out() -> None:
    patterns = [f"a{{{count}}}" for count in range(1_000, 2_000)]
    with regex_budget.regex_budget(), pytest.raises(JavaRegexError) as refused:
        list(map(compile_java_regex, patterns))
    assert "patterns of one config have more than" in refused.value.reason


def test_one_thread_at_a_time_compiles_long_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four at once stopped all others for 2.5 s; looks for garbage among their nodes did, too."""
    compiling, most, collected = 0, 0, False
    together = threading.Lock()
    compile_it = regex.compile

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal compiling, most, collected
        with together:
            compiling += 1
            most = max(most, compiling)
        collected = collected or gc.isenabled()
        try:
            return compile_it(*arguments, **options)
        finally:
            with together:
                compiling -= 1

    monkeypatch.setattr(regex, "compile", counted)
    patterns = ["(|a)" * 1_000, r"(a)\1" * 1_000, "[^a-z0-9]|" * 1_000, r"\p{L}" * 10]
    threads = [threading.Thread(target=compile_java_regex, args=(each,)) for each in patterns]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (most, collected) == (1, False)
    assert gc.isenabled()


def test_a_request_compiles_a_pattern_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regex_budget, "_PER_REQUEST", 5_000)
    with regex_budget.regex_budget():
        first = compile_java_regex("a" * 4_000)
        assert compile_java_regex("a" * 4_000) is first
        with pytest.raises(JavaRegexError, match="more than 5000 characters together"):
            compile_java_regex("b" * 4_000)
    assert compile_java_regex("b" * 4_000)


def test_a_request_does_not_wait_for_its_turn_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connector that starts goes on without one."""
    monkeypatch.setattr(regex_budget, "_WAIT_S", 0.05)
    monkeypatch.setattr(regex_budget, "_CONNECTOR_WAIT_S", 0.05)
    with regex_budget.turn(5_000):
        with regex_budget.regex_budget(), pytest.raises(JavaRegexError, match="try again later"):
            compile_java_regex("a" * 4_000)
        with regex_budget.regex_budget():
            assert compile_java_regex("short").fullmatch("short")
        assert compile_java_regex("a" * 4_000)
