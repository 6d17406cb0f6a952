// A router's changes of collections, with fake replicas that note the calls which they get.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "server/cluster/router_collections.h"
#include "server/tracing/tracer.h"
#include "tests/unit/server/cluster/router_fixture.h"

namespace maxsim::cluster {

// Two groups of two replicas. Each replica notes the calls that it gets.
class RouterCollectionsTest : public RouterTest {
 protected:
  explicit RouterCollectionsTest(bool is_live = false) : RouterTest(2, 2, is_live) {
    for (int group : {0, 1}) {
      for (int index : {0, 1}) {
        const std::string name = absl::StrCat(group, index);
        replica(group, index).server().on_admin = [this, name](const grpc::ServerContext& context,
                                                               std::string_view method) {
          const auto found = context.client_metadata().find(std::string(tracing::kTraceparentKey));
          const MutexLock lock(&mutex_);
          asked_.push_back(name + " " + std::string(method));
          traceparents_.push_back(found == context.client_metadata().end()
                                      ? std::string()
                                      : std::string(found->second.data(), found->second.size()));
        };
      }
    }
    Start();
    collections_ = std::make_unique<RouterCollections>(membership_.get(), &shutdown_);
  }

  std::vector<std::string> asked() {
    const MutexLock lock(&mutex_);
    return asked_;
  }

  absl::StatusOr<v1::ReloadCollectionResponse> Reload(uint64_t generation = 0) {
    v1::ReloadCollectionRequest request;
    request.set_name("c");
    request.set_generation(generation);
    return collections_->Reload(request, {});
  }

  static v1::LoadCollectionRequest LoadOfC() {
    v1::LoadCollectionRequest request;
    request.set_name("c");
    return request;
  }

  Mutex mutex_;
  std::vector<std::string> asked_ ABSL_GUARDED_BY(mutex_);  // replicas and methods
  std::vector<std::string> traceparents_ ABSL_GUARDED_BY(mutex_);
  StopSignal shutdown_;
  std::unique_ptr<RouterCollections> collections_;
};

}  // namespace maxsim::cluster
