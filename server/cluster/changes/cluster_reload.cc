#include "server/cluster/changes/cluster_reload.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "base/monotonic_clock.h"
#include "base/stop.h"
#include "client/error_details.h"
#include "server/cluster/changes/checked_admin_call.h"
#include "server/cluster/changes/reload_order.h"
#include "server/cluster/groups/rpcs.h"
#include "server/cluster/observed/collection_report.h"
#include "server/observability/logging.h"

namespace maxsim::cluster {
namespace {

// One reload of a cluster. Used by one thread.
class Reload {
 public:
  Reload(Membership& membership, const v1::ReloadCollectionRequest& request, const service::ChangeContext& change)
      : membership_(membership), change_(change) {
    // A server that has just died must not count as one that goes on serving the old generation.
    membership.Refresh();
    const std::shared_ptr<const View> view = membership.view();
    const auto known = view->collections().find(request.name());
    if (known != view->collections().end()) {
      before_ = known->second->generation;
      revision_before_ = known->second->revision;
    }
    for (ReloadOrder& order : InReloadOrder(*view, request.name(), MonotonicNow()))
      groups_.push_back({.order = std::move(order)});
    request_ = request;
    request_.set_revision(NextRevision(*view, request.name(), absl::Now()));  // a revision
  }

  absl::StatusOr<v1::ReloadCollectionResponse> Run() {
    absl::Status status =
        ReloadWhile([](const Of& one) { return one.num_asked < std::max<size_t>(1, (one.order.num_alive + 1) / 2); });
    if (status.ok()) status = ReloadUndecided([&](const Replica& replica) { return IsStale(replica); });
    // Requests name the new generation only if every group has it.
    if (status.ok()) status = ReloadWhile([](const Of& one) { return one.num_reloaded == 0; });
    if (!status.ok()) return status;
    // From here on requests name the new generation.
    membership_.Refresh();
    if (status = ReloadWhile([](const Of&) { return true; }); !status.ok()) return status;
    if (request_.generation() == 0) {
      // No server has a new generation.
      std::erase_if(undecided_, [&](const auto& asked) { return !IsStale(*asked.second); });
      request_.set_generation(before_);
    }
    status = ReloadUndecided([](const Replica&) { return true; });
    if (!status.ok()) return status;
    for (const Of& one : groups_) {
      if (one.away.ok() || one.was_reached) continue;
      membership_.Refresh();
      return client::WithAddition(one.away,
                                  "; no server of its group answers, and all servers that answer have been reloaded");
    }
    // If no server was asked, because the router knows none yet, `without_` is OK and must not become the result.
    if (!has_reached_ && !without_.ok()) return without_;
    return std::move(response_);
  }

 private:
  // A group, and how far its reload has come.
  struct Of {
    ReloadOrder order;
    size_t num_asked = 0;
    size_t num_reloaded = 0;
    bool was_reached = false;  // by at least one call
    absl::Status away = {};    // of the first server that could not be reached
  };

  // Calls `wants` for each group as long as it returns true, and reloads a replica each time.
  absl::Status ReloadWhile(const std::function<bool(const Of&)>& wants) {
    for (Of& one : groups_) {
      while (one.num_asked < one.order.replicas.size() && wants(one)) {
        const std::shared_ptr<Replica> replica = one.order.replicas[one.num_asked++];
        if (absl::Status status = ReloadOne(one, replica); !status.ok()) return status;
      }
    }
    return absl::OkStatus();
  }

  // Returns whether a server does not have the generation that requests named when the reload began, because it has
  // missed a reload.
  bool IsStale(const Replica& replica) const {
    const std::shared_ptr<const v1::GetInfoResponse> info = replica.info();
    const v1::CollectionInfo* const report = ReportAbout(request_.name(), info.get());
    return before_ != 0 && report != nullptr && !report->has_live() && report->generation() != before_ &&
           HasMissed(*report, before_, revision_before_);
  }

  // Returns an error that ends the reload.
  absl::Status ReloadOne(Of& one, const std::shared_ptr<Replica>& replica) {
    // A call to a lost server would wait for half a minute. It is not needed: GenerationKeeper reloads the server
    // later.
    if (replica->is_lost()) return PassOver(one, *replica, replica->poll_status());
    if (request_.generation() == 0 && IsStale(*replica)) {
      undecided_.emplace_back(&one, replica);
      return absl::OkStatus();
    }
    const auto response = CallChecked(*one.order.group, *replica, kReloadRpc, request_, change_, membership_.metrics());
    if (response.ok()) {
      one.was_reached = has_reached_ = true;
      response_.set_changed(response_.changed() || response->changed());
      const v1::CollectionInfo& now = response->collection();
      const bool is_new = response->changed() || now.generation() != before_;
      if (request_.generation() == 0 && is_new && !now.has_live()) request_.set_generation(now.generation());
      if (is_new || request_.generation() != 0) {
        ++one.num_reloaded;
      } else {
        undecided_.emplace_back(&one, replica);
      }
      return absl::OkStatus();
    }
    const absl::Status error = OfServer(*replica, *one.order.group, response.status());
    // A group without slots need not have the collection. But if a server of it has the collection, NOT_FOUND means
    // that files are missing.
    if (absl::IsNotFound(error) && ReportAbout(request_.name(), replica->info().get()) == nullptr) {
      without_.Update(error);
      return absl::OkStatus();
    }
    if (change_.stop->stopped() || !absl::IsUnavailable(error)) return error;
    return PassOver(one, *replica, response.status());
  }

  absl::Status PassOver(Of& one, const Replica& replica, const absl::Status& error) {
    one.away.Update(absl::UnavailableError(OfServer(replica, *one.order.group, error).message()));
    response_.add_not_reached(ServerText(*one.order.group, replica));
    log::Write(spdlog::level::warn, "replica_not_reloaded",
               {{"name", request_.name()}, {"replica", replica.target()}, {"error", std::string(error.message())}});
    return absl::OkStatus();
  }

  // When a server has decided which generation is meant, asks those that `wants` selects among the servers that had
  // nothing new before that, or were not asked. If their folders lack the generation, that is an error.
  absl::Status ReloadUndecided(const std::function<bool(const Replica&)>& wants) {
    if (request_.generation() == 0) return absl::OkStatus();
    for (const auto& [one, replica] : std::exchange(undecided_, {})) {
      if (!wants(*replica)) {
        undecided_.emplace_back(one, replica);
      } else if (absl::Status status = ReloadOne(*one, replica); !status.ok()) {
        return status;
      }
    }
    return absl::OkStatus();
  }

  Membership& membership_;
  const service::ChangeContext& change_;
  uint64_t before_ = 0;  // the generation that requests named when the reload began
  uint64_t revision_before_ = 0;
  v1::ReloadCollectionRequest request_;
  std::vector<Of> groups_;  // does not change after the constructor
  std::vector<std::pair<Of*, std::shared_ptr<Replica>>> undecided_;
  absl::Status without_;  // of the first server without the collection
  bool has_reached_ = false;
  v1::ReloadCollectionResponse response_;
};

}  // namespace

absl::StatusOr<v1::ReloadCollectionResponse> ReloadCluster(Membership& membership,
                                                           const v1::ReloadCollectionRequest& request,
                                                           const service::ChangeContext& change) {
  return Reload(membership, request, change).Run();
}

}  // namespace maxsim::cluster
