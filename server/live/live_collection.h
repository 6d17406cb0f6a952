// A live collection: writes go to its log, what is durable to segments, and each new snapshot is published; and it is
// compacted.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/live/live_options.h"
#include "server/live/ordered_stream.h"
#include "server/store/collection_store.h"
#include "server/store/live_documents.h"

namespace maxsim {
class Metrics;
}  // namespace maxsim

namespace maxsim::live {

class LiveThreads;

// Opens the log of a collection, which writes and compacts on `threads`. Nothing is served until LiveDocuments::Serve.
// `metrics` may be null. RESOURCE_EXHAUSTED where there are as many live collections as there may be. With
// LogKind::kNats the collection's writes are ordered by the stream that `open_stream` makes, or MakeNatsStream where it
// is null. FAILED_PRECONDITION where the log is not of that kind.
absl::StatusOr<std::shared_ptr<store::LiveDocuments>> OpenLiveCollection(const store::LiveRequest& request,
                                                                         const LiveOptions& options,
                                                                         LiveThreads* threads, Metrics* metrics,
                                                                         const OpenStream& open_stream = nullptr);

}  // namespace maxsim::live
