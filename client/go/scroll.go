package maxsim

import (
	"context"

	"example.org/maxsim/client/go/maxsimv1"
)

// ScrollOptions are the options of Scroll.
type ScrollOptions struct {
	Filter      Filter
	After       ID     // lists the documents after this id; the zero ID: from the beginning
	PageSize    int    // documents per call, at most 1,000; 0: 100
	NoPayloads  bool   // leaves the payloads out
	Tokens      bool   // returns the token vectors
	MinSequence uint64 // each page must include this write
}

// Scroll lists the documents of any collection, in the order of their ids:
//
//	scroll := client.Scroll(ctx, "notes", nil)
//	for scroll.Next() {
//		use(scroll.Document())
//	}
//	if err := scroll.Err(); err != nil {
//		return err
//	}
//
// It fetches a page at a time. Each page is a call with its own retries and, if `ctx` has no deadline, its own timeout.
// Documents that are written meanwhile are listed if their id comes after the last page. `options` may be nil.
func (c *Client) Scroll(ctx context.Context, collection string, options *ScrollOptions) *Scroll {
	if options == nil {
		options = &ScrollOptions{}
	}
	scroll := &Scroll{client: c, ctx: ctx, hasMore: true}
	limit, err := countOf("PageSize", options.PageSize)
	if err != nil {
		scroll.err = err
		return scroll
	}
	scroll.request = &maxsimv1.ScrollRequest{
		Collection:     collection,
		Limit:          limit,
		ReturnPayloads: !options.NoPayloads,
		ReturnTokens:   options.Tokens,
		MinSequence:    options.MinSequence,
	}
	if options.Filter.Message != nil {
		scroll.request.Matching = &maxsimv1.ScrollRequest_Filter{Filter: options.Filter.Message}
	} else if options.Filter.Text != "" {
		scroll.request.Matching = &maxsimv1.ScrollRequest_FilterText{FilterText: options.Filter.Text}
	}
	scroll.setAfter(options.After)
	return scroll
}

// Scroll is the list of documents that Client.Scroll returns. It is not safe for use by several goroutines.
type Scroll struct {
	client  *Client
	ctx     context.Context
	request *maxsimv1.ScrollRequest
	page    []StoredDocument
	current StoredDocument
	hasMore bool
	err     error
}

// Next moves to the next document, and fetches a page if needed. It returns false at the end and after an error.
func (s *Scroll) Next() bool {
	for s.err == nil && len(s.page) == 0 {
		if !s.hasMore {
			return false
		}
		response, err := call(s.ctx, s.client, s.client.documents.Scroll, s.request)
		if err != nil {
			s.err = err
			return false
		}
		s.page = storedDocuments(response.Documents)
		s.hasMore = response.HasMore && len(s.page) > 0
		if s.hasMore {
			s.setAfter(s.page[len(s.page)-1].ID)
		}
	}
	if s.err != nil {
		return false
	}
	s.current, s.page = s.page[0], s.page[1:]
	return true
}

// Document returns the document that Next moved to.
func (s *Scroll) Document() StoredDocument { return s.current }

// Err returns the error that ended the list, or nil. To continue after it, scroll again with After set to the id of the
// last document.
func (s *Scroll) Err() error { return s.err }

func (s *Scroll) setAfter(id ID) {
	switch id.kind {
	case stringID:
		s.request.After = &maxsimv1.ScrollRequest_AfterStringId{AfterStringId: id.text}
	case intID:
		s.request.After = &maxsimv1.ScrollRequest_AfterIntId{AfterIntId: id.number}
	}
}

// CountOptions are the options of Count and Facets.
type CountOptions struct {
	Filter      Filter
	MinSequence uint64 // the answer must include this write
	Generation  uint64 // the answer must come from this generation of the collection; 0: any
}

// Count counts the documents of any collection that match a filter. `options` may be nil.
func (c *Client) Count(ctx context.Context, collection string, options *CountOptions) (uint64, error) {
	request := &maxsimv1.CountRequest{Collection: collection}
	if options != nil {
		request.MinSequence, request.Generation = options.MinSequence, options.Generation
		if options.Filter.Message != nil {
			request.Matching = &maxsimv1.CountRequest_Filter{Filter: options.Filter.Message}
		} else if options.Filter.Text != "" {
			request.Matching = &maxsimv1.CountRequest_FilterText{FilterText: options.Filter.Text}
		}
	}
	response, err := call(ctx, c, c.documents.Count, request)
	return response.GetCount(), err
}

// Facets counts the documents of any collection for each value of a declared field, the most frequent values first.
// The field is of kind keyword or keywords. `limit` is the number of values to return, at most 65,536; 0: 10. `options`
// may be nil.
func (c *Client) Facets(ctx context.Context, collection, field string, limit int,
	options *CountOptions) (*maxsimv1.FacetsResponse, error) {
	count, err := countOf("limit", limit)
	if err != nil {
		return nil, err
	}
	request := &maxsimv1.FacetsRequest{Collection: collection, Field: field, Limit: count}
	if options != nil {
		request.MinSequence, request.Generation = options.MinSequence, options.Generation
		if options.Filter.Message != nil {
			request.Matching = &maxsimv1.FacetsRequest_Filter{Filter: options.Filter.Message}
		} else if options.Filter.Text != "" {
			request.Matching = &maxsimv1.FacetsRequest_FilterText{FilterText: options.Filter.Text}
		}
	}
	return call(ctx, c, c.documents.Facets, request)
}
