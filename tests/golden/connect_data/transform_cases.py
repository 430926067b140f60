"""The cases of transformations and predicates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from tests.golden.connect_data.values import (
    ARRAY,
    BARE_KEY,
    BARE_MAP,
    BARE_TEXT,
    MANY_FIELDS,
    MAP,
    MIXED_MAP,
    NO_VALUE,
    NULL_STRUCT,
    ORDER,
    ORDER_SCHEMA,
    ORDER_VALUE,
    STRUCT_KEY,
    TEXT,
    TIME_MS,
    Case,
    record,
    struct,
)

__all__ = ["predicate_cases", "transform_cases"]

_KEEP_NULL = {"replace.null.with.default": "false"}
_VALUES = (ORDER, BARE_MAP, NO_VALUE, NULL_STRUCT, MANY_FIELDS, BARE_TEXT, TEXT)
_KEYS = (STRUCT_KEY, BARE_KEY, NO_VALUE)
_BOTH = (ORDER, BARE_MAP)

_Config = Mapping[str, str]


def _cases(name: str, configs: Iterable[_Config], records: Sequence[Case]) -> Iterator[Case]:
    kind = "predicate" if name.startswith("predicates.") else "transform"
    for config in configs:
        for each in records:
            case = {"kind": kind, "class": f"transforms.{name}", "config": config, "record": each}
            yield dict(case)


def _everywhere(name: str, config: _Config) -> Iterator[Case]:
    """Of values and of keys."""
    yield from _cases(f"{name}$Value", [config], _VALUES)
    yield from _cases(f"{name}$Key", [config], _KEYS)


def _listed(key: str, *values: str, **others: str) -> list[_Config]:
    """A config for each value of a key."""
    return [{key: value, **others} for value in values]


def transform_cases() -> Iterator[Case]:
    """All of them, in order."""
    yield from _insert_field()
    yield from _replace_field()
    yield from _mask_field()
    yield from _value_to_key()
    yield from _everywhere("HoistField", {"field": "wrapped"})
    yield from _cases("HoistField$Value", [{}], [BARE_MAP])
    yield from _extract_field()
    yield from _routers()
    yield from _cases("Filter", [{}], [BARE_TEXT])
    yield from _cast()
    yield from _flatten()
    yield from _headers()
    yield from _set_schema_metadata()
    yield from _timestamp_converter()


def predicate_cases() -> Iterator[Case]:
    """All of them, in order."""
    patterns = _listed("pattern", "orders", "ord", "ord.*", "(", "", "[a-z]+")
    yield from _cases("predicates.TopicNameMatches", [*patterns, {}], [BARE_TEXT])
    names = _listed("name", "h1", "zz", "")
    yield from _cases("predicates.HasHeaderKey", [*names, {}], [BARE_TEXT])
    yield from _cases("predicates.RecordIsTombstone", [{}], [BARE_TEXT, NO_VALUE])


def _insert_field() -> Iterator[Case]:
    everything = {
        "topic.field": "t",
        "partition.field": "p!",
        "timestamp.field": "ts?",
        "static.field": "s",
        "static.value": "v",
    }
    yield from _everywhere("InsertField", everything)
    stamped = {"timestamp.field": "ts!"}
    yield from _everywhere("InsertField", stamped)
    name = "InsertField$Value"
    order = record(
        timestamp=None, valueSchema=ORDER_SCHEMA, value=ORDER_VALUE, keySchema="string", key="k1"
    )
    bare = record(partition=None, timestamp=None, value=MIXED_MAP, key="k1")
    yield from _cases(name, [stamped], [order, bare])
    yield from _cases(name, [{"topic.field": "t", **_KEEP_NULL}], [ORDER])
    yield from _cases(name, [{"topic.field": "id"}, {"offset.field": "o"}], _BOTH)
    maybe = {"topic.field": "t", "replace.null.with.default": "maybe"}
    yield from _cases(name, [{}, {"static.field": "x"}, maybe], [ORDER])


def _replace_field() -> Iterator[Case]:
    name = "ReplaceField"
    yield from _everywhere(name, {"exclude": "name,price", "renames": "id:ident,ok:fine"})
    yield from _everywhere(name, {"include": "id,name,qty", "renames": "name:n"})
    name = "ReplaceField$Value"
    yield from _cases(name, [{"include": "qty", **_KEEP_NULL}], [ORDER])
    renames = _listed("renames", "a", "a:b:c", ":", "a:,b:c", "a:b,,c:d")
    yield from _cases(name, [*renames, {"exclude": "a,,b"}], [BARE_MAP])
    yield from _cases(name, [{}], _BOTH)
    yield from _cases(name, [{"include": "a,a,id"}], [BARE_MAP])


def _mask_field() -> Iterator[Case]:
    name = "MaskField$Value"
    many = {"fields": "id,name,price,ratio,ok,amount,day,tags,qty"}
    records = (ORDER, BARE_MAP, NULL_STRUCT, BARE_TEXT, TEXT, NO_VALUE)
    yield from _cases(name, [many], records)
    yield from _cases(name, [{"fields": "missing,zzz"}], [*_BOTH, MANY_FIELDS])
    for field in (
        "id",
        "name",
        "price",
        "ratio",
        "ok",
        "raw",
        "amount",
        "day",
        "tags",
        "inner",
        "qty",
    ):
        yield from _cases(name, [{"fields": field, "replacement": "300"}], _BOTH)
        yield from _cases(name, [{"fields": field}], [ORDER])
    yield from _cases(name, [{"fields": "id", "replacement": "abc"}], _BOTH)
    yield from _cases(name, _replacements("amount", "abc", "1.50"), [ORDER])
    yield from _cases(name, _replacements("price", "1.5e3"), _BOTH)
    empty = [{}, {"fields": ""}, {"fields": "a", "replacement": ""}]
    yield from _cases(name, [*empty, {"fields": "name", **_KEEP_NULL}], [ORDER])
    yield from _cases("MaskField$Key", [{"fields": "id"}], [STRUCT_KEY, BARE_KEY])


def _replacements(field: str, *texts: str) -> list[_Config]:
    return [{"fields": field, "replacement": text} for text in texts]


def _value_to_key() -> Iterator[Case]:
    name = "ValueToKey"
    yield from _cases(name, [{"fields": "id,name,qty"}], _VALUES)
    yield from _cases(name, [{"fields": "nope"}], _BOTH)
    yield from _cases(name, [{"fields": "qty", **_KEEP_NULL}], [ORDER])
    yield from _cases(name, [{"fields": ""}], [BARE_MAP])
    some = {"fields": "field9,field1,field8,field2,field7,field13"}
    yield from _cases(name, [some], [MANY_FIELDS])


def _extract_field() -> Iterator[Case]:
    yield from _everywhere("ExtractField", {"field": "id"})
    name = "ExtractField$Value"
    yield from _cases(name, [{"field": "nope"}], _BOTH)
    yield from _cases(name, [{"field": "qty"}, {"field": "qty", **_KEEP_NULL}], [ORDER])
    paths = [("inner.b.c", "V2"), ("inner.deep.c", "v2"), ("inner.a", "V2")]
    yield from _cases(name, _paths(*paths), _BOTH)
    yield from _cases(name, _paths(("name.a", "V2")), [BARE_MAP, ORDER])
    yield from _cases(name, _paths(("a", "V3"), ("`a", "V2")), [BARE_MAP])
    odd_names = record(
        value={
            "map": [
                ["a.b", {"map": [["c`.d", 1], ["e", 2]]}],
                ["x`y", 3],
                ["", 4],
                ["z", {"map": [["", 5]]}],
            ]
        }
    )
    quoted = ("`a.b`.e", "`a.b`.`c\\`.d`", "`x`y`", "x`y", "", "z.")
    unclosed = ("`a.b", "`a.b\\`", "``.e", "`a.b`.nope")
    yield from _cases(name, _paths(*((path, "V2") for path in (*quoted, *unclosed))), [odd_names])


def _paths(*paths: tuple[str, str]) -> list[_Config]:
    return [{"field": path, "field.syntax.version": version} for path, version in paths]


def _routers() -> Iterator[Case]:
    replaced = (
        ("(.*)", "$1-x"),
        ("ord(.*)", "pre.$1"),
        ("o(r)(d)ers", "$2$1$3"),
        ("(?<n>.*)", "${n}!"),
        ("orders", "a\\$b"),
        ("x", "y"),
        ("o|orders", "Z"),
        ("(.*)", "$12"),
        ("(", "y"),
        ("(.*)", "${q}"),
        ("(.*)", "$"),
        ("[a-z&&[^q]]+", "new"),
    )
    routes = [{"regex": regex, "replacement": replacement} for regex, replacement in replaced]
    yield from _cases("RegexRouter", [*routes, {"regex": "a"}], [BARE_TEXT])
    name = "TimestampRouter"
    formats = (
        "yyyy-MM-dd'T'HH:mm:ss.SSS",
        "EEE d MMM yy hh a",
        "EEEE MMMM D",
        "H k K h m s S",
        "Q",
        "''yyyy''",
        "YYYY-'W'ww W F u",
        "yyyy'x",
        "G z Z X XX XXX",
    )
    times = (TIME_MS, 0, 1735689599123, 1767225600000)
    records = [record(timestamp=time, value="v") for time in times]
    yield from _cases(name, [{}, *_listed("timestamp.format", *formats)], records)
    yield from _cases(name, [{"topic.format": "${timestamp}/${topic}/${topic}"}], [BARE_TEXT])
    yield from _cases(name, [{}], [record(timestamp=None, value=1)])


def _cast() -> Iterator[Case]:
    name = "Cast$Value"
    specs = (
        "id:string,price:int32,ok:int8,ratio:string,amount:float64,day:int32,at:string,tod:int64,"
        "raw:string,qty:int64,name:string",
        "day:string,tod:string,at:int64,amount:string,price:string,id:float32,ok:string,ratio:float64",
        "amount:int8,price:boolean,id:int8,ratio:int16,qty:string",
        "name:int32",
        "raw:int32",
        "tags:string",
        "inner:string",
        "nope:int32",
        "int32",
        "string",
        "boolean",
        "a:b:c",
        "id:foo",
        "id:bytes",
        "bytes",
        "",
        "int32,int64",
        "a:",
        "id :int8 ",
        ":int8",
    )
    yield from _cases(name, _listed("spec", *specs), [*_BOTH, BARE_TEXT])
    types = ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string")
    for value, schema in _CAST:
        yield from _cases(name, _listed("spec", *types), [record(value=value, valueSchema=schema)])
    yield from _cases(name, [{"spec": "qty:int8", **_KEEP_NULL}], [ORDER])
    described = {"name": "n", "doc": "d", "version": 2, "parameters": {"a": "b"}}
    seven = {"type": "int32", "optional": True, "default": 7, **described}
    records = [record(valueSchema=seven, value=value) for value in (None, 3)]
    yield from _cases(name, [{"spec": "int64"}], records)
    yield from _cases("Cast$Key", [{"spec": "id:string"}], [STRUCT_KEY, BARE_KEY])
    yield from _cases(name, [{"spec": "name:string,id:int64"}], [BARE_MAP])


_CAST: tuple[tuple[object, str | None], ...] = (
    ("12", None),
    ("-0x1", None),
    ("1e3", None),
    (" 12 ", None),
    ("+7", None),
    ("3.99", "string"),
    ("TRUE", "string"),
    (300, None),
    (-129, "int64"),
    (3.99, None),
    ({"f64": "NaN"}, None),
    ({"f64": "1e300"}, None),
    (True, None),
    (True, "boolean"),
    ({"bytes": "0102"}, None),
    ({"date": 5}, None),
    ({"date": TIME_MS}, "Timestamp"),
    ({"date": 86400000}, "Date"),
    ({"date": 5}, "Time"),
    ({"dec": "1.50"}, None),
    ({"dec": "300.50"}, "Decimal"),
    (0.1, "float32"),
    (10000000000.0, None),
    (123456789.0, "float64"),
    ("9999999999", None),
    ("NaN", "string"),
    ("1.5f", "string"),
    ([1], None),
)
"""Values that are cast whole, and their schemas."""


def _flatten() -> Iterator[Case]:
    yield from _everywhere("Flatten", {})
    name = "Flatten$Value"
    yield from _cases(name, [{"delimiter": "_"}], _BOTH)
    yield from _cases(name, [{"delimiter": ""}], [ORDER])
    pair = struct(("x", "int32"), ("y", "string?"), optional=True)
    same_names = struct(("s", struct(("b", "int8"))), ("s.b", "int8"))
    with_default = struct(("s", pair), ("z", {"type": "string", "default": "zz"}))
    nested = [
        record(value={"map": [["a", {"date": 5}]]}),
        record(value={"map": [["a", {"dec": "1"}]]}),
        _struct_record(struct(("m", MAP)), {"m": {"map": [["a", 1]]}}),
        _struct_record(with_default, {"s": {"struct": {"x": 1}}}),
        _struct_record(struct(("s", pair), ("a.b", "int8")), {"a.b": 1}),
        _struct_record(same_names, {"s": {"struct": {"b": 1}}, "s.b": 2}),
    ]
    yield from _cases(name, [{}], nested)


def _struct_record(schema: Case, fields: Case) -> Case:
    return record(valueSchema=schema, value={"struct": fields})


def _headers() -> Iterator[Case]:
    name = "HeaderFrom$Value"
    for operation in ("copy", "move"):
        config = _header_from("id,name", "hid,hname", operation)
        yield from _everywhere("HeaderFrom", config)
        yield from _cases(name, [_header_from("nope", "h", operation)], [BARE_MAP])
        yield from _cases(name, [_header_from("qty", "h", operation)], [ORDER])
        yield from _cases(name, [_header_from("field9,field1", "a,b", operation)], [MANY_FIELDS])
    wrong = (("a,b", "copy"), ("a", "x"), ("", "copy"))
    configs = [_header_from(fields, "h", operation) for fields, operation in wrong]
    yield from _cases(name, configs, [BARE_MAP])
    yield from _cases(name, [{**_header_from("qty", "h", "copy"), **_KEEP_NULL}], [ORDER])
    drops = [*_listed("headers", "h1", "zz,h2"), {}, {"headers": ""}]
    yield from _cases("DropHeaders", drops, [BARE_TEXT])
    literals = ("1", "abc", "true", "null", "1.5", "[1,2]", "2020-01-02", "")
    inserts = [{"header": "x", "value.literal": literal} for literal in literals]
    incomplete = [{"header": "x"}, {"value.literal": "x"}]
    yield from _cases("InsertHeader", [*inserts, *incomplete], [BARE_TEXT])


def _header_from(fields: str, headers: str, operation: str) -> dict[str, str]:
    return {"fields": fields, "headers": headers, "operation": operation}


def _set_schema_metadata() -> Iterator[Case]:
    yield from _everywhere("SetSchemaMetadata", {"schema.name": "n.New", "schema.version": "9"})
    name = "SetSchemaMetadata$Value"
    numbers = [record(valueSchema="int32?", value=None), record(valueSchema="int32", value=4)]
    yield from _cases(name, [{"schema.name": "only"}], [ORDER, *numbers])
    version = {"schema.version": "2"}
    configs = [version, {}, {"schema.version": "x"}, {**version, **_KEEP_NULL}]
    yield from _cases(name, configs, [ORDER])
    map_record = record(valueSchema=MAP, value={"map": [["a", 1]]})
    array_record = record(valueSchema=ARRAY, value=["a"])
    yield from _cases(name, [{"schema.name": "m"}], [map_record, array_record])


def _timestamp_converter() -> Iterator[Case]:
    name = "TimestampConverter$Value"
    whole = [record(value=value, valueSchema=schema) for value, schema in _INSTANTS]
    for target in ("string", "unix", "Date", "Time", "Timestamp"):
        full = {"target.type": target, "format": "yyyy-MM-dd HH:mm:ss.SSS"}
        yield from _cases(name, [full], whole)
        field = {"target.type": target, "field": "at", "format": "yyyy"}
        yield from _cases(name, [field], [ORDER, BARE_MAP, NULL_STRUCT, BARE_TEXT])
        key_field = {**field, "field": "day"}
        yield from _cases("TimestampConverter$Key", [key_field], [STRUCT_KEY, BARE_KEY])
    for precision in ("seconds", "milliseconds", "microseconds", "nanoseconds"):
        targets = [{"target.type": t, "unix.precision": precision} for t in ("unix", "Timestamp")]
        for instant in (TIME_MS, -1500, {"date": TIME_MS}, {"date": -1500}, 9000000):
            yield from _cases(name, targets, [record(value=instant)])
    configs = [
        *_listed("target.type", "string", "x"),
        {},
        {"target.type": "string", "format": "bad"},
        {"target.type": "unix", "unix.precision": "hours"},
    ]
    yield from _cases(name, configs, [BARE_TEXT])
    fields = [{"target.type": "unix", "field": field} for field in ("id", "nope", "ok")]
    yield from _cases(name, fields, [BARE_MAP, ORDER])
    for format_, *texts in _PARSED:
        records = [record(value=text) for text in texts]
        yield from _cases(name, [{"target.type": "unix", "format": format_}], records)


_INSTANTS: tuple[tuple[object, str | None], ...] = (
    (TIME_MS, None),
    (TIME_MS, "int64"),
    (-1, "int64"),
    (0, "int64?"),
    ({"date": TIME_MS}, "Timestamp"),
    ({"date": 259200000}, "Date"),
    ({"date": 3723004}, "Time?"),
    ("2023-11-14 22:13:20.123", None),
    ("2023-11-14 22:13:20.123", "string"),
    ("garbage", "string"),
    (None, "string?"),
    (None, None),
    (5.5, None),
    (5, "int32"),
    ({"i32": 5}, None),
    ("2023-13-40 25:61:61.5", "string"),
)
"""Values that are converted whole, and their schemas."""

_PARSED = (
    ("yyyyMMdd", "20231114"),
    ("dd/MM/yy", "14/11/23"),
    ("d MMM yyyy", "14 Nov 2023"),
    ("EEE, d MMM yyyy HH:mm:ss Z", "Tue, 14 Nov 2023 22:13:20 +0100"),
    ("yyyy-MM-dd'T'HH:mm:ssX", "2023-11-14T22:13:20-05"),
    ("hh:mm a", "12:30 AM", "12:30 PM"),
    ("yyyy-DDD", "2023-318"),
    ("yyyy MM", "2023  7"),
    ("HHmmssSSS", "221320123"),
    ("MMMM d, yyyy", "November 3, 2021"),
    ("yyyy-MM-dd HH:mm:ss z", "2023-11-14 22:13:20 GMT"),
    ("yyyy-MM-dd", "2023-11-14xyz"),
    ("kk:mm", "24:05"),
    ("yyyy-MM-dd", "2023-11"),
)
"""A format, and texts that are read with it."""
