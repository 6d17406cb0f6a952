package maxsim

import (
	"context"
	"encoding/json"

	"example.org/maxsim/client/go/maxsimv1"
)

// Document is a document to be written. It has either Tokens or Text.
type Document struct {
	ID      ID
	Tokens  *TokenMatrix
	Text    string          // UTF-8; the server's encoder turns it into vectors. Not used if Tokens is set
	Payload json.RawMessage // a JSON object, or nil
	// Version is the caller's version of the document, such as a time; 0: none. If the id was already written or deleted
	// with the same or a newer version, the document is not written (STALE).
	Version uint64
}

// StoredDocument is a document of a collection.
type StoredDocument struct {
	ID        ID
	NumTokens int
	Payload   json.RawMessage // a JSON object; nil if the document has none
	Version   uint64          // 0 if it has none
	Sequence  uint64          // of the write that added it; 0 if the document is in the generation's shards
	// Tokens are set if the call asked for them, in the collection's storage type. FloatRows converts them to float32,
	// except for I8. I8 values times Scale are the vectors as they are stored: multiplied by a fixed orthogonal matrix
	// (rotated), and rounded.
	Tokens *TokenMatrix
	Scale  float32
}

// Upsert writes 1 to 10,000 documents of a live collection, at most Limits.MaxRequestBytes in all. Each replaces the
// stored document of the same id. When Upsert returns, the documents are on the disk, and later calls see them.
// The answer has one result per document.
//
// A retry leaves the same documents as one attempt, with two exceptions if the answer to the first attempt is lost. A
// document with a version may get the outcome STALE, because the first attempt wrote it already. A document without a
// version may replace one that another client wrote between the attempts.
func (c *Client) Upsert(ctx context.Context, collection string,
	documents ...Document) (*maxsimv1.UpsertResponse, error) {
	request := &maxsimv1.UpsertRequest{Collection: collection}
	for i, document := range documents {
		message := &maxsimv1.Document{Tokens: document.Tokens, Payload: string(document.Payload), Version: document.Version}
		if document.Tokens == nil {
			message.Text = document.Text
		}
		switch document.ID.kind {
		case stringID:
			message.Id = &maxsimv1.Document_StringId{StringId: document.ID.text}
		case intID:
			message.Id = &maxsimv1.Document_IntId{IntId: document.ID.number}
		default:
			return nil, invalid("documents", "[%d] has no ID", i)
		}
		request.Documents = append(request.Documents, message)
	}
	return call(ctx, c, c.documents.Upsert, request)
}

// Delete deletes 1 to 100,000 documents of a live collection. If `version` is not 0, documents with the same or a newer
// version are kept. The answer has one result per id. About retries, see Upsert.
func (c *Client) Delete(ctx context.Context, collection string, ids []ID, version uint64) (*maxsimv1.DeleteResponse,
	error) {
	strings, integers, err := splitIDs(ids)
	if err != nil {
		return nil, err
	}
	request := &maxsimv1.DeleteRequest{Collection: collection, Version: version}
	if integers != nil {
		request.Ids = &maxsimv1.DeleteRequest_IntIds{IntIds: integers}
	} else {
		request.Ids = &maxsimv1.DeleteRequest_StringIds{StringIds: strings}
	}
	return call(ctx, c, c.documents.Delete, request)
}

// DeleteOptions are the options of DeleteMatching.
type DeleteOptions struct {
	Version     uint64 // not 0: keeps documents with the same or a newer version
	MinSequence uint64 // the server that deletes must have seen this write
}

// DeleteMatching deletes all documents of a live collection that match a filter, which must not be the zero Filter. It
// calls the server until no more documents match; the deadline covers all of these calls. It returns the sums of the
// answers. If a call fails, Error.NumDeleted says how many documents were deleted before. The numbers count documents
// that a failed attempt deleted, but not those of an attempt whose answer was lost. `options` may be nil.
//
// A retry, or a call after an error, also deletes documents that match and were written since the first attempt, unless
// Version protects them.
func (c *Client) DeleteMatching(ctx context.Context, collection string, filter Filter,
	options *DeleteOptions) (*maxsimv1.DeleteResponse, error) {
	if filter.isZero() {
		return nil, invalid("filter", "is not set; to delete documents by ids, call Delete")
	}
	request := &maxsimv1.DeleteRequest{Collection: collection}
	if options != nil {
		request.Version, request.MinSequence = options.Version, options.MinSequence
	}
	if filter.Message != nil {
		request.Matching = &maxsimv1.DeleteRequest_Filter{Filter: filter.Message}
	} else {
		request.Matching = &maxsimv1.DeleteRequest_FilterText{FilterText: filter.Text}
	}
	ctx, cancel := c.withDeadline(ctx)
	defer cancel()
	sum := &maxsimv1.DeleteResponse{}
	// A router's error may say how many documents other groups have deleted. The next attempt does not find these
	// documents.
	noteFailure := func(failed *Error) { sum.NumDeleted += failed.NumDeleted }
	for {
		answer, err := callNoting(ctx, c, c.documents.Delete, request, noteFailure)
		if err != nil {
			if failed, ok := err.(*Error); ok && sum.NumDeleted > 0 {
				failed.Reason, failed.NumDeleted = ReasonPartlyDeleted, sum.NumDeleted
				failed.Limit, failed.LimitKey = nil, ""
			}
			return nil, err
		}
		sum.NumDeleted += answer.NumDeleted
		sum.NumMissing += answer.NumMissing
		sum.NumStale += answer.NumStale
		sum.Sequence = max(sum.Sequence, answer.Sequence)
		// Without this, a replica that lags could find documents again that are already deleted.
		request.MinSequence = max(request.MinSequence, answer.Sequence)
		if !answer.HasMore {
			return sum, nil
		}
		if answer.NumDeleted+answer.NumMissing+answer.NumStale == 0 {
			return nil, wrongAnswer("has_more is set, but no document was found")
		}
	}
}

// max returns the larger of two numbers.
func max(a, b uint64) uint64 {
	if a > b {
		return a
	}
	return b
}

// GetOptions are the options of Get.
type GetOptions struct {
	Tokens      bool   // returns the token vectors
	MinSequence uint64 // the answer must include this write
}

// Documents is the answer of Get.
type Documents struct {
	Documents  []StoredDocument // in the order of the ids
	Missing    []ID             // ids that the collection does not hold
	Generation uint64
	Sequence   uint64 // of the last write that the answer includes; 0 for a collection that is not live
}

// Get reads 1 to 1,000 documents of any collection. `options` may be nil.
func (c *Client) Get(ctx context.Context, collection string, ids []ID, options *GetOptions) (*Documents, error) {
	strings, integers, err := splitIDs(ids)
	if err != nil {
		return nil, err
	}
	request := &maxsimv1.GetRequest{Collection: collection}
	if options != nil {
		request.ReturnTokens, request.MinSequence = options.Tokens, options.MinSequence
	}
	if integers != nil {
		request.Ids = &maxsimv1.GetRequest_IntIds{IntIds: integers}
	} else {
		request.Ids = &maxsimv1.GetRequest_StringIds{StringIds: strings}
	}
	response, err := call(ctx, c, c.documents.Get, request)
	if err != nil {
		return nil, err
	}
	return &Documents{
		Documents:  storedDocuments(response.Documents),
		Missing:    joinIDs(response.GetMissingStringIds(), response.GetMissingIntIds()),
		Generation: response.Generation,
		Sequence:   response.Sequence,
	}, nil
}

func storedDocuments(messages []*maxsimv1.StoredDocument) []StoredDocument {
	documents := make([]StoredDocument, len(messages))
	for i, message := range messages {
		documents[i] = StoredDocument{
			NumTokens: int(message.NumTokens),
			Payload:   payloadOf(message.Payload),
			Version:   message.Version,
			Sequence:  message.Sequence,
			Tokens:    message.Tokens,
			Scale:     message.Scale,
		}
		switch id := message.Id.(type) {
		case *maxsimv1.StoredDocument_StringId:
			documents[i].ID = StringID(id.StringId)
		case *maxsimv1.StoredDocument_IntId:
			documents[i].ID = IntID(id.IntId)
		}
	}
	return documents
}
