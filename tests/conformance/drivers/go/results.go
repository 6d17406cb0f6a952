package main

import (
	"errors"
	"log"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"

	maxsim "example.org/maxsim/client/go"
	"example.org/maxsim/client/go/maxsimv1"
)

const maxExact = 1<<53 - 1 // larger integers are written as {"int64": "..."}

func idValue(id maxsim.ID) any {
	number, isInt := id.Int()
	if !isInt {
		return id.String()
	}
	if number < -maxExact || number > maxExact {
		return object{"int64": strconv.FormatInt(number, 10)}
	}
	return number
}

func idValues(ids []maxsim.ID) []any {
	values := make([]any, len(ids))
	for i, id := range ids {
		values[i] = idValue(id)
	}
	return values
}

// listed returns a list that is [] in JSON, and not null, if it is empty.
func listed(texts []string) []string { return append([]string{}, texts...) }

func rankingObject(ranking *maxsim.Ranking) object {
	documents := make([]object, len(ranking.Documents))
	for i, document := range ranking.Documents {
		made := object{"score": document.Score, "position": document.Position, "truncated": document.Truncated}
		if !document.ID.IsZero() {
			made["id"] = idValue(document.ID)
		}
		if document.Payload != nil {
			made["payload"] = document.Payload
		}
		if document.Matches != nil {
			made["matches"], made["similarities"] = document.Matches, document.Similarities
		}
		if len(ranking.Result.GroupValues) > 0 {
			made["group"] = document.Group
		}
		documents[i] = made
	}
	return object{"documents": documents, "missing": idValues(ranking.Missing), "sequence": ranking.Sequence,
		"query_tokens": listed(ranking.Result.QueryTokens), "query_truncated": ranking.Result.QueryTruncated}
}

// lower returns the name of an enum's value without its prefix, in lower case.
func lower(name, prefix string) string { return strings.ToLower(strings.TrimPrefix(name, prefix)) }

func writeObjects(results []*maxsimv1.WriteResult) []object {
	objects := make([]object, len(results))
	for i, result := range results {
		objects[i] = object{"outcome": lower(result.Outcome.String(), "WRITE_OUTCOME_"), "sequence": result.Sequence,
			"truncated": result.Truncated}
	}
	return objects
}

func storedObject(document maxsim.StoredDocument) object {
	made := object{"id": idValue(document.ID), "num_tokens": document.NumTokens, "version": document.Version,
		"sequence": document.Sequence}
	if document.Version > maxExact {
		made["version"] = object{"int64": strconv.FormatUint(document.Version, 10)}
	}
	if document.Payload != nil {
		made["payload"] = document.Payload
	}
	if document.Tokens != nil {
		rows, err := maxsim.FloatRows(document.Tokens)
		check(err)
		made["tokens"] = rows
	}
	return made
}

func infoObject(response *maxsimv1.GetInfoResponse) object {
	limits := response.GetLimits()
	collections := make([]object, len(response.Collections))
	for i, info := range response.Collections {
		fields := make([]object, len(info.Fields))
		for j, field := range info.Fields {
			fields[j] = object{"name": field.Name, "kind": lower(field.Kind.String(), "FIELD_KIND_")}
		}
		collections[i] = object{
			"name":          info.Name,
			"state":         lower(info.State.String(), "COLLECTION_STATE_"),
			"dim":           info.Dim,
			"storage":       lower(info.Storage.String(), "DATA_TYPE_"),
			"id_type":       lower(info.IdType.String(), "ID_TYPE_"),
			"num_documents": info.NumDocuments,
			"num_tokens":    info.NumTokens,
			"generation":    info.Generation,
			"live":          info.Live != nil,
			"fields":        fields,
		}
	}
	return object{
		"limits": object{
			"max_queries_per_request":  limits.GetMaxQueriesPerRequest(),
			"max_query_tokens":         limits.GetMaxQueryTokens(),
			"max_document_tokens":      limits.GetMaxDocumentTokens(),
			"max_candidates_per_query": limits.GetMaxCandidatesPerQuery(),
			"max_inline_documents":     limits.GetMaxInlineDocuments(),
			"max_top_k":                limits.GetMaxTopK(),
			"default_top_k":            limits.GetDefaultTopK(),
		},
		"encoder": object{
			"model":       response.GetEncoder().GetModel(),
			"fingerprint": response.GetEncoder().GetFingerprint(),
			"dim":         response.GetEncoder().GetDim(),
		},
		"collections": collections,
		"loading":     response.Loading,
	}
}

var codeNames = map[codes.Code]string{
	codes.Canceled: "CANCELLED", codes.Unknown: "UNKNOWN", codes.InvalidArgument: "INVALID_ARGUMENT",
	codes.DeadlineExceeded: "DEADLINE_EXCEEDED", codes.NotFound: "NOT_FOUND", codes.AlreadyExists: "ALREADY_EXISTS",
	codes.PermissionDenied: "PERMISSION_DENIED", codes.ResourceExhausted: "RESOURCE_EXHAUSTED",
	codes.FailedPrecondition: "FAILED_PRECONDITION", codes.Aborted: "ABORTED", codes.OutOfRange: "OUT_OF_RANGE",
	codes.Unimplemented: "UNIMPLEMENTED", codes.Internal: "INTERNAL", codes.Unavailable: "UNAVAILABLE",
	codes.DataLoss: "DATA_LOSS", codes.Unauthenticated: "UNAUTHENTICATED",
}

func errorObject(err error) object {
	var failed *maxsim.Error
	if !errors.As(err, &failed) {
		log.Fatalf("not an error of the client: %v", err)
	}
	made := object{"code": codeNames[failed.Code], "message": failed.Message}
	if failed.Attempts == 0 {
		made["local"] = true
		return made
	}
	if failed.Field != "" {
		made["field"] = failed.Field
	}
	if failed.Reason != "" {
		made["reason"] = failed.Reason
	}
	if failed.Limit != nil {
		made["limit"] = *failed.Limit
	}
	if failed.LimitKey != "" {
		made["limit_key"] = failed.LimitKey
	}
	if failed.RetryAfter != nil {
		made["retry_after_ms"] = failed.RetryAfter.Milliseconds()
	}
	return made
}
