package main

import (
	"encoding/json"
	"log"
	"strconv"
	"strings"

	maxsim "example.org/maxsim/client/go"
	"example.org/maxsim/client/go/maxsimv1"
)

const dim = 8 // of a matrix without rows, which does not say its width

// arguments are those of all methods. A member that may have several types is kept as JSON.
type arguments struct {
	Collection    string
	Query         json.RawMessage
	Queries       []json.RawMessage
	IDs           json.RawMessage `json:"ids"`
	ID            json.RawMessage `json:"id"`
	Documents     json.RawMessage
	Weights       json.RawMessage
	TopK          *int     `json:"top_k"`
	Offset        int      `json:"offset"`
	MinScore      *float32 `json:"min_score"`
	GroupBy       string   `json:"group_by"`
	GroupSize     int      `json:"group_size"`
	Payloads      *bool
	PayloadFields []string `json:"payload_fields"`
	Alignments    bool
	Normalize     bool
	Priority      string
	MissingPolicy string  `json:"missing_policy"`
	RequestID     string  `json:"request_id"`
	MinSequence   integer `json:"min_sequence"`
	Version       integer
	Filter        json.RawMessage
	ReturnTokens  bool `json:"return_tokens"`
	After         json.RawMessage
	PageSize      int `json:"page_size"`
	Field         string
	Limit         int
	Service       string
}

// integer is a number, or {"int64": "..."} for one that some JSON parsers would round.
type integer struct{ digits string }

func (i *integer) UnmarshalJSON(text []byte) error {
	var large struct{ Int64 string }
	if json.Unmarshal(text, &large) == nil && large.Int64 != "" {
		i.digits = large.Int64
	} else {
		i.digits = string(text)
	}
	return nil
}

func (i integer) signed() int64 {
	number, err := strconv.ParseInt(i.digits, 10, 64)
	check(err)
	return number
}

func (i integer) unsigned() uint64 {
	if i.digits == "" || i.digits == "null" {
		return 0
	}
	number, err := strconv.ParseUint(i.digits, 10, 64)
	check(err)
	return number
}

// check ends the driver: an error here is one of the suite.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func parse[T any](text json.RawMessage) (value T) {
	check(json.Unmarshal(text, &value))
	return value
}

func isNull(text json.RawMessage) bool { return len(text) == 0 || string(text) == "null" }

// elements returns the elements of a list, or nil for null.
func elements(text json.RawMessage) []json.RawMessage {
	if isNull(text) {
		return nil
	}
	return parse[[]json.RawMessage](text)
}

func isString(text json.RawMessage) bool { return strings.HasPrefix(string(text), `"`) }

func isList(text json.RawMessage) bool { return strings.HasPrefix(string(text), "[") }

// matrixOf returns rows as a matrix. Rows of different lengths are left for the server to refuse.
func matrixOf(text json.RawMessage) *maxsim.TokenMatrix {
	rows := parse[[][]float32](text)
	if matrix, err := maxsim.RowTokens(rows); err == nil && len(rows) > 0 {
		return matrix
	}
	values, width := []float32{}, dim
	for _, row := range rows {
		values = append(values, row...)
		width = len(rows[0])
	}
	return maxsim.Float32Tokens(values, width)
}

func (a *arguments) query(query, weights json.RawMessage) maxsim.Query {
	result := maxsim.Query{}
	if !isNull(weights) {
		result.Weights = parse[[]float32](weights)
	}
	if isString(query) {
		result.Text = parse[string](query)
	} else {
		result.Tokens = matrixOf(query)
	}
	return result
}

func idOf(text json.RawMessage) maxsim.ID {
	if isString(text) {
		return maxsim.StringID(parse[string](text))
	}
	return maxsim.IntID(parse[integer](text).signed())
}

func idsOf(text json.RawMessage) []maxsim.ID {
	ids := []maxsim.ID{}
	for _, id := range elements(text) {
		ids = append(ids, idOf(id))
	}
	return ids
}

func (a *arguments) candidates(ids, documents json.RawMessage) *maxsim.Candidates {
	if !isNull(ids) {
		strings, integers := []string{}, []int64{}
		for _, id := range idsOf(ids) {
			if number, isInt := id.Int(); isInt {
				integers = append(integers, number)
			} else {
				strings = append(strings, id.String())
			}
		}
		if len(integers) > 0 {
			return maxsim.IntCandidates(integers...)
		}
		return maxsim.StringCandidates(strings...)
	}
	if isNull(documents) {
		return maxsim.WholeCollection()
	}
	inlined := &maxsimv1.InlineDocuments{} // may have texts and matrices, which the server refuses
	for _, document := range elements(documents) {
		if isString(document) {
			inlined.Texts = append(inlined.Texts, parse[string](document))
		} else {
			inlined.Documents = append(inlined.Documents, matrixOf(document))
		}
	}
	return &maxsim.Candidates{Kind: &maxsimv1.Candidates_InlineDocuments{InlineDocuments: inlined}}
}

// candidatesOfMany returns one list for all queries, or one per query.
func (a *arguments) candidatesOfMany() []*maxsim.Candidates {
	ids, documents := elements(a.IDs), elements(a.Documents)
	lists := []*maxsim.Candidates{}
	if len(ids) > 0 && (isList(ids[0]) || isNull(ids[0])) {
		for _, one := range ids {
			lists = append(lists, a.candidates(one, nil))
		}
		return lists
	}
	if len(documents) > 0 && isList(documents[0]) {
		first := elements(documents[0])
		if len(first) > 0 && (isString(first[0]) || (len(elements(first[0])) > 0 && isList(elements(first[0])[0]))) {
			for _, one := range documents {
				lists = append(lists, a.candidates(nil, one))
			}
			return lists
		}
	}
	return append(lists, a.candidates(a.IDs, a.Documents))
}

func (a *arguments) options() *maxsim.RankOptions {
	options := &maxsim.RankOptions{
		TopK:          10,
		Offset:        a.Offset,
		MinScore:      a.MinScore,
		Filter:        a.filter(),
		GroupBy:       a.GroupBy,
		GroupSize:     a.GroupSize,
		Payloads:      a.Payloads != nil && *a.Payloads,
		PayloadFields: a.PayloadFields,
		Alignments:    a.Alignments,
		Normalize:     a.Normalize,
		Priority:      priorities[a.Priority],
		RequestID:     a.RequestID,
		MinSequence:   a.MinSequence.unsigned(),
	}
	if a.TopK != nil {
		options.TopK = *a.TopK
	}
	if a.MissingPolicy == "fail" {
		options.MissingPolicy = maxsimv1.MissingPolicy_MISSING_POLICY_FAIL
	}
	return options
}

// written returns the documents of an upsert.
func (a *arguments) written() []maxsim.Document {
	documents := []maxsim.Document{}
	for _, text := range elements(a.Documents) {
		given := parse[struct {
			ID, Tokens json.RawMessage
			Text       string
			Payload    json.RawMessage
			Version    integer
		}](text)
		document := maxsim.Document{ID: idOf(given.ID), Text: given.Text, Version: given.Version.unsigned()}
		if !isNull(given.Tokens) {
			document.Tokens = matrixOf(given.Tokens)
		}
		if len(given.Payload) > 0 {
			document.Payload = given.Payload
		}
		documents = append(documents, document)
	}
	return documents
}
