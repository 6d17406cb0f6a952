// Reads documents of a collection by their ids, for Documents.Get.
#pragma once

#include "absl/status/statusor.h"
#include "maxsim/v1/documents.pb.h"
#include "server/service/call/concurrency_limit.h"
#include "server/service/call/limits.h"
#include "server/service/documents/document_reader.h"
#include "server/store/collection/collection.h"
#include "server/store/live_documents.h"

namespace maxsim::service {

// Returns the documents of the request's ids, and as missing the ids that the collection does not hold or whose
// document the filter request.visible excludes. `live` gives the versions; if it is null, documents have none.
// `readers` limits the calls that read token vectors at the same time. Errors are those of DocumentService::Get, and
// ABORTED if a document was written meanwhile and the version that was read is no longer known
// (DocumentReader::CorrectVersions).
absl::StatusOr<v1::GetResponse> ReadDocuments(const v1::GetRequest& request, const store::Collection& collection,
                                              const store::LiveDocuments* live, const RequestLimits& limits,
                                              ConcurrencyLimit* readers);

}  // namespace maxsim::service
