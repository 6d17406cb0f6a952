package main

import (
	"encoding/json"
	"strconv"
	"strings"

	maxsim "example.org/maxsim/client/go"
	"example.org/maxsim/client/go/maxsimv1"
)

// node is a filter as JSON (docs/reference/filters.md).
type node struct {
	And, Or []node
	Not     *node
	Field   string
	Equals  json.RawMessage
	In      []json.RawMessage
	Exists  bool
	Gt, Lt  json.RawMessage
	Gte     json.RawMessage
	Lte     json.RawMessage
}

func (a *arguments) filter() maxsim.Filter {
	if isNull(a.Filter) {
		return maxsim.Filter{}
	}
	if isString(a.Filter) {
		return maxsim.Filter{Text: parse[string](a.Filter)}
	}
	return maxsim.Filter{Message: parse[node](a.Filter).message()}
}

func (n node) message() *maxsimv1.Filter {
	switch {
	case n.And != nil:
		return &maxsimv1.Filter{Node: &maxsimv1.Filter_AllOf{AllOf: listOf(n.And)}}
	case n.Or != nil:
		return &maxsimv1.Filter{Node: &maxsimv1.Filter_AnyOf{AnyOf: listOf(n.Or)}}
	case n.Not != nil:
		return &maxsimv1.Filter{Node: &maxsimv1.Filter_Negation{Negation: n.Not.message()}}
	case n.Equals != nil:
		equals := &maxsimv1.FilterEquals{Field: n.Field, Value: valueOf(n.Equals)}
		return &maxsimv1.Filter{Node: &maxsimv1.Filter_Equals{Equals: equals}}
	case n.In != nil:
		isIn := &maxsimv1.FilterIn{Field: n.Field}
		for _, value := range n.In {
			isIn.Values = append(isIn.Values, valueOf(value))
		}
		return &maxsimv1.Filter{Node: &maxsimv1.Filter_IsIn{IsIn: isIn}}
	case n.Exists:
		return &maxsimv1.Filter{Node: &maxsimv1.Filter_Exists{Exists: n.Field}}
	}
	values := &maxsimv1.FilterRange{Field: n.Field, Low: boundOf(n.Gt, n.Gte), High: boundOf(n.Lt, n.Lte)}
	return &maxsimv1.Filter{Node: &maxsimv1.Filter_Range{Range: values}}
}

func listOf(nodes []node) *maxsimv1.FilterList {
	list := &maxsimv1.FilterList{}
	for _, one := range nodes {
		list.Filters = append(list.Filters, one.message())
	}
	return list
}

func boundOf(exclusive, inclusive json.RawMessage) *maxsimv1.FilterBound {
	if exclusive != nil {
		return &maxsimv1.FilterBound{Value: valueOf(exclusive), Exclusive: true}
	}
	if inclusive != nil {
		return &maxsimv1.FilterBound{Value: valueOf(inclusive)}
	}
	return nil
}

func valueOf(text json.RawMessage) *maxsimv1.FilterValue {
	switch {
	case isString(text):
		return &maxsimv1.FilterValue{Kind: &maxsimv1.FilterValue_StringValue{StringValue: parse[string](text)}}
	case string(text) == "true" || string(text) == "false":
		return &maxsimv1.FilterValue{Kind: &maxsimv1.FilterValue_BooleanValue{BooleanValue: string(text) == "true"}}
	case strings.ContainsAny(string(text), ".eE") && !strings.HasPrefix(string(text), "{"):
		number, err := strconv.ParseFloat(string(text), 64)
		check(err)
		return &maxsimv1.FilterValue{Kind: &maxsimv1.FilterValue_NumberValue{NumberValue: number}}
	}
	return &maxsimv1.FilterValue{Kind: &maxsimv1.FilterValue_IntegerValue{IntegerValue: parse[integer](text).signed()}}
}
