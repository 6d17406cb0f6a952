// Runs 64 clients whose requests are valid, invalid, cancelled or expired, unary or streamed, while the collection is
// reloaded. Every answer must be correct or the expected error. MAXSIM_SOAK_SECONDS sets the duration (default: 5 s).
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/mutex.h"
#include "grpcpp/create_channel.h"
#include "kernels/reference.h"
#include "tests/service/server_fixture.h"

namespace maxsim::test {
namespace {

using namespace std::chrono_literals;

constexpr int kClients = 64;
constexpr int kQueries = 32;

// A query, with its FP64 score of each document in the odd generations and in the even ones.
struct KnownQuery {
  RandomQuery query;
  std::array<std::vector<ReferenceScore>, 2> scores;
};

enum class Kind { kValid, kBadField, kNoCollection, kMissingFails, kCancelled, kExpired, kTimeless, kStream };

class Soak {
 public:
  Soak() : server_([](config::Config* config) { config->batching.max_queue_jobs = 48; }) {
    other_ = ServedDocuments(TestSeed() + 1000);
    for (int i = 0; i < kQueries; ++i) {
      KnownQuery known;
      known.query = MakeQuery(TestSeed() + static_cast<uint64_t>(i), ScalarType::kF16, kDim, 1 + i * 2);
      known.scores[1] = ReferenceScores(server_.documents().view(), known.query.view(1));
      known.scores[0] = ReferenceScores(other_.view(), known.query.view(1));
      queries_.push_back(std::move(known));
    }
  }

  void Run(std::chrono::seconds duration) {
    const auto end = std::chrono::steady_clock::now() + duration;
    std::vector<std::thread> threads;
    for (int c = 0; c < kClients; ++c) {
      threads.emplace_back([this, c, end] {
        std::mt19937_64 random(TestSeed() + static_cast<uint64_t>(c));
        auto stub =
            v1::Reranker::NewStub(grpc::CreateChannel(server_.grpc_address(), grpc::InsecureChannelCredentials()));
        while (std::chrono::steady_clock::now() < end && !failed_) OneCall(*stub, random);
      });
    }
    for (uint64_t generation = 2; std::chrono::steady_clock::now() < end && !failed_; ++generation) {
      std::this_thread::sleep_for(500ms);
      Publish(server_.folder(), generation % 2 == 1 ? server_.documents() : other_);
      server_.server().RequestReload();
    }
    for (std::thread& thread : threads) thread.join();
  }

  int Stop() { return server_.Stop(); }
  std::string Summary() const {
    std::string text;
    for (size_t code = 0; code < codes_.size(); ++code) {
      if (codes_[code] > 0) text += " " + std::to_string(code) + ":" + std::to_string(codes_[code].load());
    }
    return text;
  }
  int64_t count(grpc::StatusCode code) const { return codes_[static_cast<size_t>(code)]; }

 private:
  void Fail(const std::string& what) {
    MutexLock lock(&mutex_);
    if (!failed_.exchange(true)) ADD_FAILURE() << what << "; " << SeedTrace(TestSeed());
  }

  // Makes a request of `kind` with the known query.
  v1::RerankRequest Request(Kind kind, const KnownQuery& known, std::mt19937_64& random,
                            std::vector<int64_t>* candidates) {
    std::vector<std::string> ids;
    const size_t count = 1 + random() % 60;
    for (size_t i = 0; i < count; ++i) {
      candidates->push_back(random() % 20 == 0 ? -1 : static_cast<int64_t>(random() % kNumDocuments));
      ids.push_back(candidates->back() < 0 ? "unknown" : "doc-" + std::to_string(candidates->back()));
    }
    v1::RerankRequest request = MakeRequest("corpus", known.query, ids, static_cast<uint32_t>(1 + random() % 30));
    request.set_priority(static_cast<v1::Priority>(random() % 4));
    if (kind == Kind::kBadField) request.mutable_queries(0)->mutable_tokens()->set_dim(kDim + 1);
    if (kind == Kind::kNoCollection) request.set_collection("nothing");
    if (kind == Kind::kMissingFails) {
      request.set_missing_policy(v1::MISSING_POLICY_FAIL);
      request.mutable_candidates()->mutable_string_ids()->add_ids("unknown too");
    }
    return request;
  }

  // Returns "" if the answer is right for its generation, otherwise the error.
  std::string Wrong(const KnownQuery& known, const std::vector<int64_t>& candidates, const v1::RerankRequest& request,
                    const v1::RerankResponse& response) const {
    const std::vector<ReferenceScore>& scores = known.scores[response.generation() % 2];
    std::vector<int64_t> distinct;
    for (const int64_t candidate : candidates) {
      if (candidate >= 0 && std::find(distinct.begin(), distinct.end(), candidate) == distinct.end()) {
        distinct.push_back(candidate);
      }
    }
    const v1::QueryResult& result = response.results(0);
    const size_t expected = std::min<size_t>(request.top_k(), distinct.size());
    if (static_cast<size_t>(result.scores_size()) != expected) return "wrong number of results";
    std::vector<double> best;
    for (const int64_t document : distinct) best.push_back(scores[static_cast<size_t>(document)].score);
    std::sort(best.rbegin(), best.rend());
    for (int rank = 0; rank < result.scores_size(); ++rank) {
      const int64_t document = candidates[result.positions(rank)];
      if (document < 0 || result.string_ids().ids(rank) != "doc-" + std::to_string(document)) return "wrong id";
      const ReferenceScore& truth = scores[static_cast<size_t>(document)];
      const double tolerance = 1e-5 * truth.magnitude;
      if (!(std::abs(static_cast<double>(result.scores(rank)) - truth.score) <= tolerance)) return "wrong score";
      // At each rank, the document must have the score that the reference has at this rank. Documents of equal scores
      // may be in any order.
      if (std::abs(best[static_cast<size_t>(rank)] - truth.score) > 2 * tolerance) return "wrong rank";
    }
    return "";
  }

  void OneCall(v1::Reranker::Stub& stub, std::mt19937_64& random) {
    constexpr std::array kKinds = {Kind::kValid,    Kind::kValid,        Kind::kValid,        Kind::kValid,
                                   Kind::kBadField, Kind::kNoCollection, Kind::kMissingFails, Kind::kCancelled,
                                   Kind::kExpired,  Kind::kTimeless,     Kind::kStream};
    const Kind kind = kKinds[random() % kKinds.size()];
    if (kind == Kind::kStream) return Stream(stub, random);
    const KnownQuery& known = queries_[random() % queries_.size()];
    std::vector<int64_t> candidates;
    const v1::RerankRequest request = Request(kind, known, random, &candidates);
    grpc::ClientContext context;
    std::thread canceller;
    if (kind == Kind::kExpired)
      context.set_deadline(std::chrono::system_clock::now() + std::chrono::microseconds(random() % 3000));
    if (kind == Kind::kTimeless) context.set_deadline(std::chrono::system_clock::now() - 1s);
    if (kind == Kind::kCancelled) {
      canceller = std::thread([&context, delay = random() % 2000] {
        std::this_thread::sleep_for(std::chrono::microseconds(delay));
        context.TryCancel();
      });
    }
    v1::RerankResponse response;
    const grpc::Status status = stub.Rerank(&context, request, &response);
    if (canceller.joinable()) canceller.join();
    Judge(kind, status, known, candidates, request, response);
  }

  // Accepts the correct answer, and the errors that this kind of request may get. A full queue may refuse any valid
  // request.
  void Judge(Kind kind, const grpc::Status& status, const KnownQuery& known, const std::vector<int64_t>& candidates,
             const v1::RerankRequest& request, const v1::RerankResponse& response) {
    ++codes_[static_cast<size_t>(status.error_code())];
    const auto fail = [&](const std::string& what) {
      Fail(what + ": kind " + std::to_string(static_cast<int>(kind)) + ", code " + std::to_string(status.error_code()) +
           " " + status.error_message());
    };
    const bool full = status.error_code() == grpc::RESOURCE_EXHAUSTED;
    switch (kind) {
      case Kind::kBadField:
        if (status.error_code() != grpc::INVALID_ARGUMENT || status.error_message().find("dim") == std::string::npos) {
          fail("a wrong dimension was not refused");
        }
        return;
      case Kind::kNoCollection:
      case Kind::kMissingFails:
        if (status.error_code() != grpc::NOT_FOUND) fail("something unknown was found");
        return;
      case Kind::kTimeless:
        if (status.error_code() != grpc::DEADLINE_EXCEEDED) fail("an expired request was answered");
        return;
      case Kind::kExpired:
        if (status.error_code() == grpc::DEADLINE_EXCEEDED || full) return;
        break;
      case Kind::kCancelled:
        if (status.error_code() == grpc::CANCELLED || full) return;
        break;
      default:
        if (full && status.error_details().find("google.rpc.RetryInfo") != std::string::npos) return;
        break;
    }
    if (!status.ok()) return fail("a valid request failed");
    if (const std::string wrong = Wrong(known, candidates, request, response); !wrong.empty()) fail(wrong);
  }

  void Stream(v1::Reranker::Stub& stub, std::mt19937_64& random) {
    struct Sent {
      const KnownQuery* known;
      std::vector<int64_t> candidates;
      v1::RerankRequest request;
      Kind kind;
    };
    std::vector<Sent> sent(1 + random() % 8);
    grpc::ClientContext context;
    auto stream = stub.RerankStream(&context);
    for (size_t i = 0; i < sent.size(); ++i) {
      sent[i].kind = random() % 4 == 0 ? Kind::kBadField : Kind::kValid;
      sent[i].known = &queries_[random() % queries_.size()];
      sent[i].request = Request(sent[i].kind, *sent[i].known, random, &sent[i].candidates);
      sent[i].request.set_request_id(std::to_string(i));
      stream->Write(sent[i].request);
    }
    const bool cancel = random() % 4 == 0;
    if (cancel) context.TryCancel();
    stream->WritesDone();
    size_t answers = 0;
    v1::RerankStreamResponse response;
    while (stream->Read(&response)) {
      ++answers;
      const Sent& one = sent[std::stoul(response.request_id())];
      // In a stream, the retry hint is a field of the response. In a unary call, it is a detail of the status.
      const std::string details = response.retry_after_ms() > 0 ? "google.rpc.RetryInfo" : "";
      Judge(one.kind, {static_cast<grpc::StatusCode>(response.code()), response.message(), details}, *one.known,
            one.candidates, one.request, response.response());
    }
    const grpc::Status status = stream->Finish();
    if (!cancel && (!status.ok() || answers != sent.size())) Fail("a stream ended early: " + status.error_message());
  }

  RunningServer server_;
  RandomDocuments other_;
  std::vector<KnownQuery> queries_;
  std::array<std::atomic<int64_t>, 17> codes_{};
  Mutex mutex_;
  std::atomic<bool> failed_{false};
};

TEST(SoakTest, EveryAnswerOfAMixedLoadIsRight) {
  const char* const configured = std::getenv("MAXSIM_SOAK_SECONDS");
  const int seconds = configured == nullptr ? 5 : std::max(1, std::atoi(configured));
  Soak soak;
  soak.Run(std::chrono::seconds(seconds));
  EXPECT_EQ(soak.Stop(), 0);
  std::printf("answers by code:%s\n", soak.Summary().c_str());
  EXPECT_GT(soak.count(grpc::OK), 0);
  EXPECT_GT(soak.count(grpc::INVALID_ARGUMENT), 0);
  EXPECT_GT(soak.count(grpc::NOT_FOUND), 0);
  EXPECT_GT(soak.count(grpc::DEADLINE_EXCEEDED), 0);
}

}  // namespace
}  // namespace maxsim::test
