// Finds the documents that a Documents.Delete with a filter deletes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/stop.h"
#include "maxsim/v1/documents.pb.h"
#include "server/service/call/concurrency_limit.h"
#include "server/store/collection/collection.h"
#include "server/store/live_documents.h"

namespace maxsim::service {

// The maximum number of deletes with a filter at the same time. Each blocks a thread while it finds documents, and then
// holds up to kMaxDeleteIds writes (about 70 MB with the longest ids) until they are written.
inline constexpr int kMaxMatchingDeletes = 2;

inline bool HasFilter(const v1::DeleteRequest& request) {
  return request.matching_case() != v1::DeleteRequest::MATCHING_NOT_SET;
}

// Returns INVALID_ARGUMENT if the request has both ids and a filter, or neither (which must not mean all documents), or
// a min_sequence without a filter.
absl::Status CheckDeleteSelection(const v1::DeleteRequest& request);

// The maximum number of documents that one call deletes if a stream (NATS) orders the writes. The stream gets a message
// per document, and all of them must be applied within nats.timeout (5 s by default).
inline constexpr size_t kMaxStreamedDeletes = 10'000;

// A delete with a version reads the version of each matching document. After this number of versions it stops looking
// for documents, if it has found one (FindPageOfIds says when exactly). Reading a version takes some microseconds, so
// this takes about a second. Without the limit, a call could reach its deadline before it deletes anything.
inline constexpr uint64_t kMaxVersionsRead = 250'000;

// Returns the maximum number of documents that one call deletes. `state` says whether a stream orders the writes.
size_t MaxDeletesOf(const store::LiveState& state);

// Returns an error if a stream orders the writes and its messages do not arrive. The server may then lack writes that
// other servers have confirmed, and would find documents that were replaced long ago. The error is UNAVAILABLE with
// RetryInfo or, if waiting does not help, the FAILED_PRECONDITION that any write would get. `name` is the collection's,
// for the message.
absl::Status CheckStream(const std::string& name, const store::LiveState& state);

// Limits deletes with a filter to kMaxMatchingDeletes at a time.
ConcurrencyLimit MatchingDeleteLimit();

struct MatchingDeletes {
  std::vector<store::Write> writes;  // in the order of their ids
  bool has_more = false;             // there may be more documents to delete; `writes` is not empty
};

// Returns one delete for each document of the snapshot that matches the request's filter, but at most `max_documents`:
// those with the smallest ids. If the request has a version, leaves out documents to which `live` gives the same or a
// newer version, because their deletes would be stale. It then stops after about `max_versions` versions, and may not
// have found the smallest ids (see FindPageOfIds). Returns INVALID_ARGUMENT about the filter, the errors of
// CheckSequence and VersionOf, and the error of `check`. Calls `check` (may be null) before it starts, every 65,536
// documents, and every 1,024 versions.
absl::StatusOr<MatchingDeletes> FindMatchingDeletes(const v1::DeleteRequest& request,
                                                    const store::Collection& collection,
                                                    const store::LiveDocuments& live, size_t max_documents,
                                                    uint64_t max_versions, const StopCheck& check);

// Returns the answer to a delete with a filter.
v1::DeleteResponse MatchingDeletesAnswer(const store::WriteResults& written, bool has_more);

}  // namespace maxsim::service
