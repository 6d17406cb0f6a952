// A live collection: a thread that writes to its log, applies what is durable to segments, and publishes each new
// snapshot; and one that compacts.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/live/live_options.h"
#include "server/store/collection_store.h"
#include "server/store/live_documents.h"

namespace maxsim {
class Metrics;
}  // namespace maxsim

namespace maxsim::live {

// Opens the log of a collection and begins its threads. Nothing is served until LiveDocuments::Serve. `metrics` may be
// null.
absl::StatusOr<std::shared_ptr<store::LiveDocuments>> OpenLiveCollection(const store::LiveRequest& request,
                                                                         const LiveOptions& options, Metrics* metrics);

}  // namespace maxsim::live
