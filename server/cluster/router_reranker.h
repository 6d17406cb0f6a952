// Reranks by the groups of a cluster.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/cluster/groups/group_call.h"
#include "server/cluster/groups/membership.h"
#include "server/cluster/parts/split.h"
#include "server/observability/metrics.h"
#include "server/service/api.h"
#include "server/service/request/text_encoding.h"

namespace maxsim::cluster {

// What the services of a router share. All must outlive them and their calls.
struct RouterDependencies {
  Membership* membership = nullptr;
  service::TextEncoding* texts = nullptr;
  Metrics* metrics = nullptr;
  CallEnvironment environment;
  service::RequestLimits limits;
  absl::Duration timeout;  // of calls without a deadline
};

// Returns the encoder's target of a collection of the cluster.
service::TextTarget TextTargetOf(const CollectionView& collection);

// The class is thread-safe. Texts are encoded once, here; what is asked of the groups are vectors.
class RouterReranker : public service::RerankApi {
 public:
  explicit RouterReranker(const RouterDependencies& dependencies) : deps_(dependencies) {}

  void Rerank(v1::RerankRequest request, service::CallContext context, service::Done<v1::RerankResponse> done) override;
  absl::Status ChooseCollection(v1::RerankRequest* request) const override;
  void CountUnread(std::string_view method, absl::Time arrival, const absl::Status& status) override;
  const service::RequestLimits& limits() const override { return deps_.limits; }
  std::unique_ptr<v1::EncoderInfo> encoder() const override { return deps_.texts->info(); }

  void SetState(service::ServingState state) { state_ = state; }
  service::ServingState state() const { return state_; }

 private:
  struct Call;
  absl::Status CheckState() const;
  absl::Status CheckTexts(const v1::RerankRequest& request) const;
  void Encode(std::shared_ptr<Call> call);
  void Score(std::shared_ptr<Call> call);
  // Returns whether a group is lost in whose place others may answer, once the view says that it is: its replicas of
  // the generation before, or for inline documents another group.
  static bool OthersMayAnswer(const Call& call, const std::vector<absl::StatusOr<v1::RerankResponse>>& answers);
  void Gather(const std::shared_ptr<Call>& call, std::vector<absl::StatusOr<v1::RerankResponse>> answers);
  void Finish(Call& call, absl::StatusOr<v1::RerankResponse> response);

  const RouterDependencies deps_;
  std::atomic<service::ServingState> state_{service::ServingState::kLoading};
  std::atomic<uint64_t> turn_{0};
};

}  // namespace maxsim::cluster
