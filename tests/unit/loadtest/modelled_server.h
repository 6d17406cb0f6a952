// Helpers for load tests: collection infos, workloads, and a model of a server.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "absl/time/time.h"
#include "base/mutex.h"
#include "client/call_queue.h"
#include "gtest/gtest.h"
#include "loadtest/run/worker.h"
#include "loadtest/run/workload.h"

namespace maxsim::loadtest {

// Returns the GetInfo answer of a server with one collection, "docs": 500 documents of dimension 8, with ids of `type`.
inline v1::GetInfoResponse Info(v1::IdType type = v1::ID_TYPE_INT64) {
  v1::GetInfoResponse info;
  v1::CollectionInfo& collection = *info.add_collections();
  collection.set_name("docs");
  collection.set_state(v1::COLLECTION_STATE_READY);
  collection.set_dim(8);
  collection.set_storage(v1::DATA_TYPE_F16);
  collection.set_id_type(type);
  collection.set_num_documents(500);
  v1::Limits& limits = *info.mutable_limits();
  limits.set_max_queries_per_request(16);
  limits.set_max_query_tokens(128);
  limits.set_max_document_tokens(512);
  limits.set_max_candidates_per_query(400);
  limits.set_max_top_k(200);
  limits.set_max_request_bytes(1 << 20);
  limits.set_max_inline_documents(64);
  return info;
}

// Returns a workload in which the right answer to each request is one hit at position 0.
inline std::unique_ptr<Workload> OneHitWorkload() {
  WorkloadOptions options;
  options.collection = "docs";
  options.candidates = CandidateKind::kWholeCollection;
  options.top_k = 1;
  options.pool_requests = 16;
  absl::StatusOr<std::unique_ptr<Workload>> workload = Workload::Prepare(options, Info());
  EXPECT_TRUE(workload.ok()) << workload.status();
  return *std::move(workload);
}

// Models a server that handles one request at a time. An answer comes `service_ns` after the previous answer or after
// the request's start, whichever is later. No answer comes from stall_from_ns to stall_until_ns (times of NowNs()).
class ModelQueue : public client::CallQueue {
 public:
  struct Behaviour {
    int64_t service_ns = 0;
    int64_t stall_from_ns = INT64_MAX, stall_until_ns = INT64_MAX;
    // Returns the status of the n-th answer, counted from 0. If null, all answers are OK.
    std::function<absl::Status(int64_t n)> status;
    int64_t start_cost_ns = 0;  // processor time that a Start takes
    std::atomic<int64_t>* most_under_way = nullptr;
  };
  explicit ModelQueue(Behaviour behaviour) : behaviour_(std::move(behaviour)) {}

  void Start(const client::EncodedRequest&, uint64_t tag) override {
    for (const int64_t until_ns = NowNs() + behaviour_.start_cost_ns; NowNs() < until_ns;) {
    }
    const MutexLock lock(&mutex_);
    free_ns_ = std::max(free_ns_, NowNs()) + behaviour_.service_ns;
    if (free_ns_ >= behaviour_.stall_from_ns && free_ns_ < behaviour_.stall_until_ns) {
      free_ns_ = behaviour_.stall_until_ns;
    }
    waiting_.push_back({tag, free_ns_});
    if (behaviour_.most_under_way != nullptr) {
      *behaviour_.most_under_way = std::max<int64_t>(*behaviour_.most_under_way, static_cast<int64_t>(waiting_.size()));
    }
    changed_.NotifyAll();
  }

  Event Next(absl::Time deadline, Answer& answer) override {
    const auto until = absl::ToChronoTime(deadline);
    MutexLock lock(&mutex_);
    while (waiting_.empty() || waiting_.front().ready_ns > NowNs()) {
      if (closed_ && waiting_.empty()) return Event::kClosed;
      if (std::chrono::system_clock::now() >= until) return Event::kTimeout;
      const auto ready = waiting_.empty()
                             ? until
                             : std::chrono::system_clock::now() +
                                   std::chrono::nanoseconds(std::max<int64_t>(0, waiting_.front().ready_ns - NowNs()));
      changed_.WaitUntil(lock, std::min(until, ready));
    }
    answer.tag = waiting_.front().tag;
    waiting_.pop_front();
    answer.status = behaviour_.status ? behaviour_.status(num_answered_) : absl::OkStatus();
    ++num_answered_;
    answer.response.Clear();
    v1::QueryResult& result = *answer.response.add_results();
    result.add_scores(1);
    result.add_positions(0);
    answer.response.mutable_timings()->set_kernel_us(250);
    return Event::kAnswer;
  }

  void Close() override {
    const MutexLock lock(&mutex_);
    closed_ = true;
    changed_.NotifyAll();
  }

 private:
  struct Waiting {
    uint64_t tag;
    int64_t ready_ns;
  };
  const Behaviour behaviour_;
  Mutex mutex_;
  ConditionVariable changed_;
  std::deque<Waiting> waiting_;
  int64_t free_ns_ = 0;
  int64_t num_answered_ = 0;
  bool closed_ = false;
};

}  // namespace maxsim::loadtest
