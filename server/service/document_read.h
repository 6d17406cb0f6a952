// Reads documents of a collection, for Documents.Get.
#pragma once

#include "absl/status/statusor.h"
#include "kernels/scalar_type.h"
#include "maxsim/v1/documents.pb.h"
#include "server/service/call/concurrency_limit.h"
#include "server/service/call/limits.h"
#include "server/store/collection/collection.h"
#include "server/store/live_documents.h"

namespace maxsim::service {

// More readers at a time would take threads from other calls.
inline constexpr int kMaxReaders = 2;

// Returns the type in which token vectors of a storage are read: that type itself, or F32 for residual codes, which are
// decoded.
constexpr ScalarType ReadType(ScalarType storage) { return IsResidual(storage) ? ScalarType::kF32 : storage; }

// Returns the documents of the request's ids that the collection holds, and the ids that it does not hold. Versions are
// those of `live`; if that is null, no document has one. `readers` bounds the calls that read token vectors at a time.
// Errors are those of DocumentService::Get, and ABORTED if a document was replaced meanwhile and its version is no
// longer known: then a newer snapshot of the collection has to be read, which is there or soon is.
absl::StatusOr<v1::GetResponse> ReadDocuments(const v1::GetRequest& request, const store::Collection& collection,
                                              const store::LiveDocuments* live, const RequestLimits& limits,
                                              ConcurrencyLimit* readers);

}  // namespace maxsim::service
