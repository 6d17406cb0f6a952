package main

import (
	"context"

	maxsim "example.org/maxsim/client/go"
	"example.org/maxsim/client/go/maxsimv1"
)

type method = func(context.Context, *maxsim.Client, *arguments) (object, error)

var methods = map[string]method{
	"rerank":      rerank,
	"search":      search,
	"rerank_many": rerankMany,
	"upsert":      upsert,
	"delete":      remove,
	"get":         get,
	"scroll":      scroll,
	"count":       count,
	"facets":      facets,
	"explain":     explain,
	"info":        info,
	"health":      health,
}

func rerank(ctx context.Context, client *maxsim.Client, given *arguments) (object, error) {
	query := given.query(given.Query, given.Weights)
	ranking, err := client.Rerank(ctx, given.Collection, query, given.candidates(given.IDs, given.Documents),
		given.options())
	if err != nil {
		return nil, err
	}
	return rankingObject(ranking), nil
}

func search(ctx context.Context, client *maxsim.Client, given *arguments) (object, error) {
	query := given.query(given.Query, given.Weights)
	if query.Tokens != nil || len(query.Weights) > 0 || !isNull(given.IDs) || !isNull(given.Documents) {
		return rerank(ctx, client, given)
	}
	ranking, err := client.Search(ctx, given.Collection, query.Text, given.options())
	if err != nil {
		return nil, err
	}
	return rankingObject(ranking), nil
}

func rerankMany(ctx context.Context, client *maxsim.Client, given *arguments) (object, error) {
	queries := make([]maxsim.Query, len(given.Queries))
	weights := elements(given.Weights)
	for i, query := range given.Queries {
		if weights == nil {
			queries[i] = given.query(query, nil)
		} else {
			queries[i] = given.query(query, weights[i])
		}
	}
	rankings, err := client.RerankMany(ctx, given.Collection, queries, given.candidatesOfMany(), given.options())
	if err != nil {
		return nil, err
	}
	objects := make([]object, len(rankings))
	for i, ranking := range rankings {
		objects[i] = rankingObject(ranking)
	}
	return object{"rankings": objects}, nil
}

func upsert(ctx context.Context, client *maxsim.Client, given *arguments) (object, error) {
	response, err := client.Upsert(ctx, given.Collection, given.written()...)
	if err != nil {
		return nil, err
	}
	return object{"results": writeObjects(response.Results), "sequence": response.Sequence}, nil
}

func remove(ctx context.Context, client *maxsim.Client, given *arguments) (object, error) {
	if isNull(given.Filter) {
		response, err := client.Delete(ctx, given.Collection, idsOf(given.IDs), given.Version.unsigned())
		if err != nil {
			return nil, err
		}
		return object{"results": writeObjects(response.Results), "sequence": response.Sequence}, nil
	}
	options := maxsim.DeleteOptions{Version: given.Version.unsigned()}
	sum, err := client.DeleteMatching(ctx, given.Collection, given.filter(), &options)
	if err != nil {
		return nil, err
	}
	return object{"num_deleted": sum.NumDeleted, "num_missing": sum.NumMissing, "num_stale": sum.NumStale,
		"sequence": sum.Sequence}, nil
}

func get(ctx context.Context, client *maxsim.Client, given *arguments) (object, error) {
	options := maxsim.GetOptions{Tokens: given.ReturnTokens, MinSequence: given.MinSequence.unsigned()}
	found, err := client.Get(ctx, given.Collection, idsOf(given.IDs), &options)
	if err != nil {
		return nil, err
	}
	documents := make([]object, len(found.Documents))
	for i, document := range found.Documents {
		documents[i] = storedObject(document)
	}
	return object{"documents": documents, "missing": idValues(found.Missing)}, nil
}

func scroll(ctx context.Context, client *maxsim.Client, given *arguments) (object, error) {
	options := maxsim.ScrollOptions{
		Filter:     given.filter(),
		PageSize:   given.PageSize,
		NoPayloads: given.Payloads != nil && !*given.Payloads,
		Tokens:     given.ReturnTokens,
	}
	if !isNull(given.After) {
		options.After = idOf(given.After)
	}
	documents := []object{}
	list := client.Scroll(ctx, given.Collection, &options)
	for list.Next() {
		documents = append(documents, storedObject(list.Document()))
	}
	return object{"documents": documents}, list.Err()
}

func count(ctx context.Context, client *maxsim.Client, given *arguments) (object, error) {
	number, err := client.Count(ctx, given.Collection, &maxsim.CountOptions{Filter: given.filter()})
	return object{"count": number}, err
}

func facets(ctx context.Context, client *maxsim.Client, given *arguments) (object, error) {
	options := maxsim.CountOptions{Filter: given.filter()}
	found, err := client.Facets(ctx, given.Collection, given.Field, given.Limit, &options)
	if err != nil {
		return nil, err
	}
	values := make([][2]any, len(found.Values))
	for i, value := range found.Values {
		values[i] = [2]any{value.Value, value.Count}
	}
	return object{"values": values, "num_values": found.NumValues, "num_documents": found.NumDocuments}, nil
}

func explain(ctx context.Context, client *maxsim.Client, given *arguments) (object, error) {
	query := given.query(given.Query, given.Weights)
	explanation, err := client.Explain(ctx, given.Collection, query, idOf(given.ID))
	if err != nil {
		return nil, err
	}
	return object{"score": explanation.Score, "similarities": explanation.Similarities,
		"query_tokens": listed(explanation.Response.QueryTokens)}, nil
}

func info(ctx context.Context, client *maxsim.Client, _ *arguments) (object, error) {
	response, err := client.Info(ctx)
	if err != nil {
		return nil, err
	}
	return infoObject(response), nil
}

func health(ctx context.Context, client *maxsim.Client, given *arguments) (object, error) {
	status, err := client.Health(ctx, given.Service)
	return object{"status": status.String()}, err
}

// priorities are the names of the suite; a missing name is "normal".
var priorities = map[string]maxsimv1.Priority{
	"low":    maxsimv1.Priority_PRIORITY_LOW,
	"normal": maxsimv1.Priority_PRIORITY_NORMAL,
	"high":   maxsimv1.Priority_PRIORITY_HIGH,
}
