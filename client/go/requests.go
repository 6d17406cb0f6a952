package maxsim

import (
	"context"

	"example.org/maxsim/client/go/maxsimv1"
)

// Query is a question: either its token vectors or its text.
type Query struct {
	Tokens  *TokenMatrix
	Text    string    // UTF-8; the server's encoder turns it into vectors. Not used if Tokens is set
	Weights []float32 // one per token vector; empty: each has the weight 1
}

// Candidates are the documents that a query ranks. Make them with one of the functions below.
type Candidates = maxsimv1.Candidates

// StringCandidates are documents of a collection with strings as ids, at most Limits.MaxCandidatesPerQuery.
func StringCandidates(ids ...string) *Candidates {
	return &Candidates{Kind: &maxsimv1.Candidates_StringIds{StringIds: &maxsimv1.StringIds{Ids: ids}}}
}

// IntCandidates are documents of a collection with integers as ids, at most Limits.MaxCandidatesPerQuery.
func IntCandidates(ids ...int64) *Candidates {
	return &Candidates{Kind: &maxsimv1.Candidates_IntIds{IntIds: &maxsimv1.IntIds{Ids: ids}}}
}

// WholeCollection makes every document of the collection a candidate.
func WholeCollection() *Candidates {
	return &Candidates{Kind: &maxsimv1.Candidates_WholeCollection{WholeCollection: &maxsimv1.WholeCollection{}}}
}

// InlineDocuments are token vectors that the call brings with it, at most Limits.MaxInlineDocuments. The collection of
// the call may be "".
func InlineDocuments(documents ...*TokenMatrix) *Candidates {
	return inlined(&maxsimv1.InlineDocuments{Documents: documents})
}

// InlineTexts are texts that the call brings with it and that the server's encoder turns into vectors.
func InlineTexts(texts ...string) *Candidates {
	return inlined(&maxsimv1.InlineDocuments{Texts: texts})
}

func inlined(documents *maxsimv1.InlineDocuments) *Candidates {
	return &Candidates{Kind: &maxsimv1.Candidates_InlineDocuments{InlineDocuments: documents}}
}

// Filter limits a call to the documents that match it. The zero Filter matches all documents. docs/reference/filters.md
// describes the text form, such as `lang = "en" and year >= 1998`.
type Filter struct {
	Text    string
	Message *maxsimv1.Filter // used if it is set
}

func (f Filter) isZero() bool { return f.Text == "" && f.Message == nil }

// RankOptions are the options of Rerank, RerankMany and Search. The zero value has the server's defaults.
type RankOptions struct {
	TopK     int      // documents to return; 0: Limits.DefaultTopK. Offset + TopK is at most Limits.MaxTopK
	Offset   int      // ranks to skip
	MinScore *float32 // leaves out documents whose score in the answer is lower
	Filter   Filter   // ranks only the candidates that match

	// GroupBy is a declared field of kind keyword. Documents come in groups that have the same value of this field, in
	// the order of the groups' best documents. TopK and Offset count groups. Documents without a value are left out.
	GroupBy   string
	GroupSize int // documents per group, the best ones; 0: 1

	Payloads      bool     // returns the documents' payloads
	PayloadFields []string // returns only these top-level members of the payloads, at most 64 names; empty: all
	Alignments    bool     // returns which document token matches each query token best

	// Normalize divides each score by the number of the query's tokens, so that it is a mean and not a sum. The order
	// stays the same.
	Normalize     bool
	Priority      maxsimv1.Priority      // of the call in the server's queue
	MissingPolicy maxsimv1.MissingPolicy // FAIL: an id that the collection does not hold is an error
	RequestID     string                 // appears in the server's log and in the answer; at most 256 bytes
	MinSequence   uint64                 // the answer must include this write (UpsertResponse.Sequence)
	Generation    uint64                 // the answer must come from this generation of the collection; 0: any
	Refinement    *maxsimv1.RefinementOptions
	// TokenPairs returns what the request costs (Ranking.Response.TokenPairs).
	TokenPairs bool
}

// Rerank ranks the candidates for one query, the best first. `options` may be nil.
func (c *Client) Rerank(ctx context.Context, collection string, query Query, candidates *Candidates,
	options *RankOptions) (*Ranking, error) {
	rankings, err := c.RerankMany(ctx, collection, []Query{query}, []*Candidates{candidates}, options)
	if err != nil {
		return nil, err
	}
	return rankings[0], nil
}

// RerankMany ranks the candidates of several queries in one call, and returns one ranking per query. `candidates` has
// one element per query, or one for all of them. At most Limits.MaxQueriesPerRequest queries.
func (c *Client) RerankMany(ctx context.Context, collection string, queries []Query, candidates []*Candidates,
	options *RankOptions) ([]*Ranking, error) {
	if len(candidates) != 1 && len(candidates) != len(queries) {
		return nil, invalid("candidates", "has %d elements for %d queries; must have 1, or one per query",
			len(candidates), len(queries))
	}
	request, err := options.request(collection)
	if err != nil {
		return nil, err
	}
	for i, query := range queries {
		message := query.message()
		if len(candidates) > 1 {
			message.Candidates = candidates[i]
		}
		request.Queries = append(request.Queries, message)
	}
	if len(candidates) == 1 {
		request.Candidates = candidates[0]
	}
	response, err := call(ctx, c, c.reranker.Rerank, request)
	if err != nil {
		return nil, err
	}
	return rankingsOf(response, len(queries))
}

// Search ranks all documents of a collection for a text, which the server's encoder turns into vectors. To search with
// token vectors, call Rerank with WholeCollection().
func (c *Client) Search(ctx context.Context, collection, text string, options *RankOptions) (*Ranking, error) {
	return c.Rerank(ctx, collection, Query{Text: text}, WholeCollection(), options)
}

func (q Query) message() *maxsimv1.Query {
	message := &maxsimv1.Query{Tokens: q.Tokens, Weights: q.Weights}
	if q.Tokens == nil {
		message.InWords = &maxsimv1.Query_Text{Text: q.Text}
	}
	return message
}

// request returns a request with these options, without queries and candidates.
func (o *RankOptions) request(collection string) (*maxsimv1.RerankRequest, error) {
	if o == nil {
		o = &RankOptions{}
	}
	counts := [3]uint32{}
	for i, given := range []struct {
		name  string
		value int
	}{{"TopK", o.TopK}, {"Offset", o.Offset}, {"GroupSize", o.GroupSize}} {
		count, err := countOf(given.name, given.value)
		if err != nil {
			return nil, err
		}
		counts[i] = count
	}
	request := &maxsimv1.RerankRequest{
		RequestId:        o.RequestID,
		Collection:       collection,
		TopK:             counts[0],
		Offset:           counts[1],
		GroupSize:        counts[2],
		GroupBy:          o.GroupBy,
		MissingPolicy:    o.MissingPolicy,
		Priority:         o.Priority,
		ReturnPayloads:   o.Payloads,
		PayloadFields:    o.PayloadFields,
		ReturnAlignments: o.Alignments,
		Normalize:        o.Normalize,
		MinSequence:      o.MinSequence,
		Generation:       o.Generation,
		Refinement:       o.Refinement,
		ReturnTokenPairs: o.TokenPairs,
	}
	if o.MinScore != nil {
		request.Threshold = &maxsimv1.RerankRequest_MinScore{MinScore: *o.MinScore}
	}
	if o.Filter.Message != nil {
		request.Matching = &maxsimv1.RerankRequest_Filter{Filter: o.Filter.Message}
	} else if o.Filter.Text != "" {
		request.Matching = &maxsimv1.RerankRequest_FilterText{FilterText: o.Filter.Text}
	}
	return request, nil
}

// countOf returns a count as the field of a message holds it.
func countOf(name string, value int) (uint32, error) {
	if value < 0 || uint64(value) > 1<<32-1 {
		return 0, invalid(name, "is %d; must be between 0 and %d", value, uint32(1<<32-1))
	}
	return uint32(value), nil
}
