"""The oracle's implementation of filters. Makes functions of a document's field values from filters in JSON, and from
the few text filters that cases use."""

import datetime


def value_at(payload, field):
    """Returns the value of a field in a payload, or None."""
    value = payload
    for key in (field.get("path") or field["name"]).split("."):
        if not isinstance(value, dict) or key not in value:
            return None
        value = value[key]
    if field["kind"] == "time":
        return datetime.datetime.fromisoformat(value.replace("Z", "+00:00"))
    return value


def parse(filter):
    """Returns a function that says whether a document matches the filter. Its argument has the document's values by
    field."""
    if filter is None:
        return lambda values: True
    if isinstance(filter, str):
        return parse(TEXTS[filter])
    if "and" in filter:
        parts = [parse(one) for one in filter["and"]]
        return lambda values: all(part(values) for part in parts)
    if "or" in filter:
        parts = [parse(one) for one in filter["or"]]
        return lambda values: any(part(values) for part in parts)
    if "not" in filter:
        negated = parse(filter["not"])
        return lambda values: not negated(values)
    name = filter["field"]
    tests = [comparison(how, value) for how, value in filter.items() if how != "field"]
    return lambda values: values[name] is not None and all(test(values[name]) for test in tests)


def comparison(how, wanted):
    """Returns a function of a value that is not None."""
    if how == "exists":
        return lambda value: True
    if how in ("equals", "in"):
        allowed = wanted if how == "in" else [wanted]
        return lambda value: any(one in allowed for one in (value if isinstance(value, list) else [value]))
    orders = {
        "gt": lambda value, bound: value > bound,
        "gte": lambda value, bound: value >= bound,
        "lt": lambda value, bound: value < bound,
        "lte": lambda value, bound: value <= bound,
    }
    if isinstance(wanted, str):
        wanted = datetime.datetime.fromisoformat(wanted.replace("Z", "+00:00"))
    return lambda value: orders[how](value, wanted)


# The text filters of the cases, with the JSON filters of the same meaning (docs/reference/filters.md).
TEXTS = {
    'lang = "en"': {"field": "lang", "equals": "en"},
    'lang != "en"': {"not": {"field": "lang", "equals": "en"}},
    'lang in ("de", "fr") or year >= 2024': {
        "or": [{"field": "lang", "in": ["de", "fr"]}, {"field": "year", "gte": 2024}]
    },
    'not (tags in ("old", "draft") or exists(book))': {
        "not": {"or": [{"field": "tags", "in": ["old", "draft"]}, {"field": "book", "exists": True}]}
    },
    "year < 2000": {"field": "year", "lt": 2000},
    'lang = "日本"': {"field": "lang", "equals": "日本"},
}
