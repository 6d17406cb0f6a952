// A live collection. A write goes to the log first. Once it is durable there, it goes to a segment (device memory for
// written documents), and searches get a new snapshot. In the background, the collection compacts itself: it writes its
// changes into new shards.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/live/local/live_options.h"
#include "server/live/stream/ordered_stream.h"
#include "server/store/collection_store.h"
#include "server/store/live_documents.h"

namespace maxsim {
class Metrics;
}  // namespace maxsim

namespace maxsim::live {

class Layouts;
class LiveThreads;

// Opens the log of a collection, and returns the collection, which writes and compacts on `threads`. It serves nothing
// before the call of LiveDocuments::Serve. `metrics` may be null. With LogKind::kNats, a stream orders the collection's
// writes, and `layouts` has the collection's layout; `layouts` may be null, and must outlive the result. `open_stream`
// makes the stream object; if it is null, MakeNatsStream does. Returns RESOURCE_EXHAUSTED if live.max_collections are
// already open, and FAILED_PRECONDITION if the existing log is of another kind.
absl::StatusOr<std::shared_ptr<store::LiveDocuments>> OpenLiveCollection(const store::LiveRequest& request,
                                                                         const LiveOptions& options,
                                                                         LiveThreads* threads, Metrics* metrics,
                                                                         const OpenStream& open_stream = nullptr,
                                                                         Layouts* layouts = nullptr);

}  // namespace maxsim::live
