// A live collection: a thread that writes to its log, applies what is durable to segments, and publishes each new
// snapshot; and one that compacts.
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

// Opens the log of a collection and begins its threads. Nothing is served until LiveDocuments::Serve. `metrics` may be
// null. With LogKind::kNats the collection's writes are ordered by the stream that `open_stream` makes, or
// MakeNatsStream where it is null. FAILED_PRECONDITION where the log is not of that kind.
absl::StatusOr<std::shared_ptr<store::LiveDocuments>> OpenLiveCollection(const store::LiveRequest& request,
                                                                         const LiveOptions& options, Metrics* metrics,
                                                                         const OpenStream& open_stream = nullptr);

}  // namespace maxsim::live
