package maxsim

import (
	"context"
	"encoding/json"
	"fmt"

	"google.golang.org/grpc/codes"

	"example.org/maxsim/client/go/maxsimv1"
)

// Ranking is the answer to one query.
type Ranking struct {
	Documents []RankedDocument // the best first
	// Missing are the candidates that the collection does not hold, in the order of the request, each once.
	Missing []ID
	// Sequence is that of the last write that the answer includes; 0 for a collection that is not live.
	Sequence uint64

	// Result has the rest of this query's answer, such as UnavailableDocuments, QueryTokens and Refinement.
	Result *maxsimv1.QueryResult
	// Response is the whole answer of the call, with its timings. All rankings of a call share it.
	Response *maxsimv1.RerankResponse
}

// RankedDocument is one document of a Ranking.
type RankedDocument struct {
	ID ID // the zero ID for an inline document
	// Position is the document's index in the list of candidates, from 0. For a whole collection it is the document's
	// place in the collection (QueryResult.Positions).
	Position     uint64
	Score        float32
	Payload      json.RawMessage // a JSON object; nil if the document has none or RankOptions.Payloads is not set
	Group        string          // with RankOptions.GroupBy, the document's value of that field
	Matches      []uint32        // with RankOptions.Alignments, per query token the index of the best document token
	Similarities []float32       // with RankOptions.Alignments, per query token the inner product, before the weight
	Truncated    bool            // the encoder cut the end of the document's text
}

// rankingsOf converts an answer. It returns an error if the lengths of the answer's lists contradict each other.
func rankingsOf(response *maxsimv1.RerankResponse, numQueries int) ([]*Ranking, error) {
	if len(response.Results) != numQueries {
		return nil, wrongAnswer("it has %d results for %d queries", len(response.Results), numQueries)
	}
	rankings := make([]*Ranking, numQueries)
	for i, result := range response.Results {
		ids := joinIDs(result.GetStringIds(), result.GetIntIds())
		size := len(result.Scores)
		if len(result.Positions) != size || !fits(len(ids), size) || !fits(len(result.Payloads), size) ||
			!fits(len(result.Alignments), size) || !fits(len(result.Truncated), size) ||
			!fits(len(result.GroupValues), size) {
			return nil, wrongAnswer("the lists of results[%d] differ in length", i)
		}
		ranking := &Ranking{
			Documents: make([]RankedDocument, size),
			Missing:   joinIDs(result.GetMissingStringIds(), result.GetMissingIntIds()),
			Sequence:  response.Sequence,
			Result:    result,
			Response:  response,
		}
		for j := range ranking.Documents {
			document := &ranking.Documents[j]
			document.Score, document.Position = result.Scores[j], result.Positions[j]
			if len(ids) > 0 {
				document.ID = ids[j]
			}
			if len(result.Payloads) > 0 {
				document.Payload = payloadOf(result.Payloads[j])
			}
			if len(result.Alignments) > 0 {
				document.Matches = result.Alignments[j].DocumentTokens
				document.Similarities = result.Alignments[j].Similarities
			}
			if len(result.Truncated) > 0 {
				document.Truncated = result.Truncated[j]
			}
			if len(result.GroupValues) > 0 {
				document.Group = result.GroupValues[j]
			}
		}
		rankings[i] = ranking
	}
	return rankings, nil
}

// fits says whether a list that may be left out has the right length.
func fits(length, size int) bool { return length == 0 || length == size }

func payloadOf(text string) json.RawMessage {
	if text == "" {
		return nil
	}
	return json.RawMessage(text)
}

func wrongAnswer(problem string, arguments ...any) *Error {
	message := "the server's answer is wrong: " + fmt.Sprintf(problem, arguments...)
	return &Error{Code: codes.Internal, Message: message, Attempts: 1}
}

// Explanation shows how the score of one document comes about. All numbers are FP64. The score and the similarities of
// Rerank differ from these by at most 1e-5 of their magnitude.
type Explanation struct {
	Score float64
	// Similarities are the inner products: one row per query token, with one value per document token, before the weights.
	Similarities [][]float64
	// Response has the rest of the answer, such as the tokens as text.
	Response *maxsimv1.ExplainResponse
}

// Explain returns the similarities of every token of a query with every token of one stored document. NOT_FOUND if the
// collection does not hold the id.
func (c *Client) Explain(ctx context.Context, collection string, query Query, id ID) (*Explanation, error) {
	strings, integers, err := splitIDs([]ID{id})
	if err != nil {
		return nil, err
	}
	candidates := &Candidates{Kind: &maxsimv1.Candidates_IntIds{IntIds: integers}}
	if integers == nil {
		candidates.Kind = &maxsimv1.Candidates_StringIds{StringIds: strings}
	}
	response, err := call(ctx, c, c.reranker.Explain, &maxsimv1.RerankRequest{
		Collection: collection,
		Queries:    []*maxsimv1.Query{query.message()},
		Candidates: candidates,
	})
	if err != nil {
		return nil, err
	}
	rows, columns := int(response.NumQueryTokens), int(response.NumDocumentTokens)
	if len(response.Similarities) != rows*columns {
		return nil, wrongAnswer("it has %d similarities for %d x %d tokens", len(response.Similarities), rows, columns)
	}
	explanation := &Explanation{Score: response.Score, Response: response}
	for i := 0; i < rows; i++ {
		explanation.Similarities = append(explanation.Similarities, response.Similarities[i*columns:(i+1)*columns])
	}
	return explanation, nil
}
