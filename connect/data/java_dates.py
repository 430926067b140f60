"""Java's SimpleDateFormat in UTC and English: formatting and lenient parsing of times.

A pattern consists of letters for fields, text in single quotes (two quotes are one), and other
characters that stand for themselves. Parsing is lenient as in Java: month 13 is January of the next
year. Unsupported, with a clear error: week fields (w, W, F, Y) when parsing, and zone names other
than UTC, GMT and Z. Immutable; may be used from any thread.
"""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from typing import Final

from connect.data.logical import MS_PER_DAY, from_ms, to_ms

__all__ = ["DateFormat", "InvalidPattern"]

_LETTERS: Final = "GyMdkHmsSEDFwWahKzZYuXL"
_NUMERIC: Final = frozenset("ydkHmsSDFwWhKYu")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ZONE = re.compile(r"(?:GMT|UTC)?([+-])(\d{1,2}):?(\d{2})|GMT|UTC|Z")
_ISO_ZONE = re.compile(r"Z|([+-])(\d{2})(?::?(\d{2}))?")
_NUMBER = re.compile(r"-?\d+")
# Java places a year of two digits within 80 years before and 20 years after today.
_CENTURY_BACK = 80


class InvalidPattern(ValueError):
    """A pattern that SimpleDateFormat or this module refuses, with Java's error text."""


@dataclass(frozen=True, slots=True)
class _Item:
    """A field (`letter`, `count`), or literal text (`letter` is empty)."""

    letter: str
    count: int
    text: str = ""

    @property
    def numeric(self) -> bool:
        return self.letter in _NUMERIC or (self.letter in ("M", "L") and self.count <= 2)


class DateFormat:
    """A date format with one pattern. Raises `InvalidPattern`."""

    __slots__ = ("_items", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._items = _compile(pattern)

    def format(self, instant: datetime.datetime) -> str:
        """Return the text of an instant."""
        moment = from_ms(to_ms(instant))
        return "".join(
            _field_text(item, moment) if item.letter else item.text for item in self._items
        )

    def parse(self, text: str) -> datetime.datetime | None:
        """Parse the instant at the start of a text, and ignore the rest, as Java does.

        Returns None if the text does not match. Raises `DataError` beyond the years 1 to 9999.
        """
        fields: dict[str, int] = {}
        at = 0
        for number, item in enumerate(self._items):
            following = self._items[number + 1] if number + 1 < len(self._items) else None
            read = _read(item, following, text, at, fields)
            if read is None:
                return None
            at = read
        return from_ms(_resolve(fields))


def _compile(pattern: str) -> tuple[_Item, ...]:
    items: list[_Item] = []
    literal = ""
    quoted = False
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "'":
            if pattern[at : at + 2] == "''":
                literal += "'"
                at += 2
                continue
            quoted = not quoted
            at += 1
            continue
        if quoted or not (char.isascii() and char.isalpha()):
            literal += char
            at += 1
            continue
        if char not in _LETTERS:
            raise InvalidPattern(f"Illegal pattern character '{char}'")
        end = at
        while end < len(pattern) and pattern[end] == char:
            end += 1
        if char == "X" and end - at > 3:
            raise InvalidPattern("invalid ISO 8601 format: length=" + str(end - at))
        if literal:
            items.append(_Item("", 0, literal))
            literal = ""
        items.append(_Item(char, end - at))
        at = end
    if quoted:
        raise InvalidPattern("Unterminated quote")
    if literal:
        items.append(_Item("", 0, literal))
    return tuple(items)


def _field_text(item: _Item, moment: datetime.datetime) -> str:
    letter, count = item.letter, item.count
    if letter in ("y", "Y"):
        year = moment.year if letter == "y" else _week_year(moment)
        return f"{year % 100:02d}" if count == 2 else f"{year:0{count}d}"
    if letter in ("M", "L"):
        if count >= 4:
            return _MONTHS[moment.month - 1]
        if count == 3:
            return _MONTHS[moment.month - 1][:3]
        return f"{moment.month:0{count}d}"
    if letter == "E":
        name = _DAYS[moment.weekday()]
        return name if count >= 4 else name[:3]
    if letter == "a":
        return "AM" if moment.hour < 12 else "PM"
    if letter == "G":
        return "AD"
    if letter == "z":
        return "Coordinated Universal Time" if count >= 4 else "UTC"
    if letter == "Z":
        return "+0000"
    if letter == "X":
        return "Z"
    return f"{_number(letter, moment):0{count}d}"


def _number(letter: str, moment: datetime.datetime) -> int:
    day_of_year = moment.timetuple().tm_yday
    numbers = {
        "d": moment.day,
        "H": moment.hour,
        "k": moment.hour or 24,
        "K": moment.hour % 12,
        "h": moment.hour % 12 or 12,
        "m": moment.minute,
        "s": moment.second,
        "S": moment.microsecond // 1000,
        "D": day_of_year,
        "F": (moment.day - 1) // 7 + 1,
        "u": moment.isoweekday(),
        "w": _week(moment),
        "W": (moment.day - 1 + _sunday_based(moment.replace(day=1))) // 7 + 1,
    }
    return numbers[letter]


def _sunday_based(moment: datetime.datetime) -> int:
    return moment.isoweekday() % 7


def _week(moment: datetime.datetime) -> int:
    """Return the week of the year by US rules: weeks start on Sunday, 1 January is in week 1."""
    if _week_year(moment) != moment.year:
        return 1
    first = moment.replace(month=1, day=1)
    return (moment.timetuple().tm_yday - 1 + _sunday_based(first)) // 7 + 1


def _week_year(moment: datetime.datetime) -> int:
    days_left = 31 - moment.day
    if moment.month == 12 and days_left < 6 - _sunday_based(moment):
        return moment.year + 1
    return moment.year


def _read(
    item: _Item, following: _Item | None, text: str, at: int, fields: dict[str, int]
) -> int | None:
    """Parse one item at `at` into `fields`. Return the next position, or None if it is missing."""
    if not item.letter:
        return at + len(item.text) if text.startswith(item.text, at) else None
    while at < len(text) and text[at] in " \t":
        at += 1
    if item.letter in ("M", "L") and item.count >= 3:
        return _read_name(_MONTHS, text, at, "M", fields)
    if item.letter == "E":
        return _read_name(_DAYS, text, at, "E", fields)
    if item.letter == "a":
        return _read_half(text, at, fields)
    if item.letter == "G":
        return at + 2 if text[at : at + 2].upper() == "AD" else None
    if item.letter in "zZX":
        return _read_zone(item.letter, text, at, fields)
    return _read_number(item, following, text, at, fields)


def _read_number(
    item: _Item, following: _Item | None, text: str, at: int, fields: dict[str, int]
) -> int | None:
    # Before another number, a field is exactly as wide as the pattern says.
    end = at + item.count if following is not None and following.numeric else len(text)
    match = _NUMBER.match(text, at, end)
    if match is None:
        return None
    value = int(match.group())
    letter = "M" if item.letter == "L" else item.letter
    if letter == "y" and item.count <= 2 and len(match.group()) == 2 and value >= 0:
        value = _with_century(value)
    fields[letter] = value
    return match.end()


def _with_century(two_digits: int) -> int:
    earliest = datetime.datetime.now(datetime.UTC).year - _CENTURY_BACK
    year = earliest // 100 * 100 + two_digits
    return year + 100 if year < earliest else year


def _read_name(
    names: tuple[str, ...], text: str, at: int, letter: str, fields: dict[str, int]
) -> int | None:
    rest = text[at:].lower()
    for number, name in enumerate(names, start=1):
        for form in (name.lower(), name[:3].lower()):
            if rest.startswith(form):
                fields[letter] = number
                return at + len(form)
    return None


def _read_half(text: str, at: int, fields: dict[str, int]) -> int | None:
    half = text[at : at + 2].upper()
    if half not in ("AM", "PM"):
        return None
    fields["a"] = int(half == "PM")
    return at + 2


def _read_zone(letter: str, text: str, at: int, fields: dict[str, int]) -> int | None:
    match = (_ISO_ZONE if letter == "X" else _ZONE).match(text, at)
    if match is None:
        return None
    sign, hours, minutes = match.groups()
    if sign is not None:
        ahead = (int(hours) * 60 + int(minutes or 0)) * 60_000
        fields["zone"] = -ahead if sign == "-" else ahead
    return match.end()


def _resolve(fields: dict[str, int]) -> int:
    """Return milliseconds since 1970. A field beyond its range carries over into the next larger
    one.
    """
    months = fields.get("y", fields.get("Y", 1970)) * 12 + fields.get("M", 1) - 1
    year, month = divmod(months, 12)
    if "D" in fields and "M" not in fields and "d" not in fields:
        day = _days_of(year, 0) + fields["D"] - 1
    else:
        day = _days_of(year, month) + fields.get("d", 1) - 1
    if "H" in fields:
        hour = fields["H"]
    elif "k" in fields:
        hour = fields["k"] % 24
    else:
        hour = fields.get("K", fields.get("h", 0) % 12) + 12 * fields.get("a", 0)
    seconds = (hour * 60 + fields.get("m", 0)) * 60 + fields.get("s", 0)
    return day * MS_PER_DAY + seconds * 1000 + fields.get("S", 0) - fields.get("zone", 0)


def _days_of(year: int, month: int) -> int:
    """Return the days from 1970 to the first of a month (counted from 0), in the Gregorian
    calendar.
    """
    # Counting years from March puts the leap day at the end of a year.
    shifted = year if month >= 2 else year - 1
    from_march = (month - 2) % 12
    leaps = shifted // 4 - shifted // 100 + shifted // 400
    return shifted * 365 + leaps + (from_march * 153 + 2) // 5 - 719468
