// Serves the Documents service over gRPC. A fake live collection gives the answers that the test chooses.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "grpcpp/create_channel.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "server/grpc/grpc_documents.h"
#include "server/service/documents.h"
#include "server/service/request/text_encoding.h"
#include "server/service/tenant_gate/tenant_documents.h"
#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/collection/fake_live_documents.h"
#include "tests/support/fake_backend.h"
#include "tests/support/requests.h"
#include "tests/support/values/eventually.h"

namespace maxsim::rpc {

// Keeps the write calls to the live collection until the test answers them. Thread-safe.
class Desk {
 public:
  struct Call {
    std::vector<std::string> ids;
    store::LiveDocuments::Done done;
  };

  void Take(std::vector<store::Write> writes, store::LiveDocuments::Done done) {
    Call call{.ids = {}, .done = std::move(done)};
    for (const store::Write& write : writes) call.ids.push_back(write.string_id);
    const std::lock_guard lock(mutex_);
    calls_.push_back(std::move(call));
    changed_.notify_all();
  }

  // Waits until `count` calls have arrived. Returns false after kTestLimit.
  bool WaitFor(size_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, test::kTestLimit, [&] { return calls_.size() >= count; });
  }
  size_t count() {
    const std::lock_guard lock(mutex_);
    return calls_.size();
  }
  std::vector<std::string> ids(size_t idx) {
    const std::lock_guard lock(mutex_);
    return calls_[idx].ids;
  }

  // Answers a kept call.
  void Answer(size_t idx, const absl::Status& status = absl::OkStatus()) {
    store::LiveDocuments::Done done;
    store::WriteResults results;
    {
      const std::lock_guard lock(mutex_);
      done = std::exchange(calls_[idx].done, nullptr);
      for (size_t i = 0; i < calls_[idx].ids.size(); ++i) {
        results.results.push_back({store::WriteResult::Outcome::kApplied, ++sequence_});
      }
      results.sequence = sequence_;
    }
    status.ok() ? done(std::move(results)) : done(status);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Call> calls_;
  uint64_t sequence_ = 0;
};

class GrpcDocumentsTest : public testing::Test {
 protected:
  static constexpr int32_t kDim = 16;
  static constexpr int kMaxInFlight = 2;

  void SetUp() override { Start({}); }

  void Start(service::TokenFiles files) {
    test::CorpusOptions options;
    options.payloads = true;
    test::BuildCorpus(folder_ / "live", test::SmallDocuments(1, 10, ScalarType::kF16, kDim), options);
    store_.SetOpenLive(
        [this](const store::LiveRequest&) -> absl::StatusOr<std::shared_ptr<store::LiveDocuments>> { return live_; });
    const auto loaded = store_.Load("live", folder_ / "live", store::Residency::kAuto, store::Replication::kAuto, "",
                                    nullptr, /*live=*/true);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    service_.SetState(service::ServingState::kServing);
    authenticator_ = std::make_unique<service::Authenticator>(std::move(files));
    ASSERT_TRUE(authenticator_->Load().ok());
    documents_ = std::make_unique<GrpcDocuments>(GrpcDocuments::Dependencies{.documents = &gate_,
                                                                             .authenticator = authenticator_.get(),
                                                                             .calls = &calls_,
                                                                             .answers = &answers_,
                                                                             .stream_in_flight = kMaxInFlight,
                                                                             .client_key = ""});
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterService(documents_.get());
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    stub_ = v1::Documents::NewStub(
        grpc::CreateChannel("127.0.0.1:" + std::to_string(port), grpc::InsecureChannelCredentials()));
  }

  void TearDown() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(5));
  }

  // From now on, the test itself answers the writes to the collection (desk_).
  void AnswerByHand() {
    live_->on_submit = [this](std::vector<store::Write> writes, store::LiveDocuments::Done done) {
      desk_.Take(std::move(writes), std::move(done));
    };
  }

  static v1::UpsertRequest Request(const std::vector<std::string>& ids) {
    v1::UpsertRequest request;
    request.set_collection("live");
    for (const std::string& id : ids) {
      v1::Document& document = *request.add_documents();
      document.set_string_id(id);
      *document.mutable_tokens() = test::ToProto(test::RandomTokens(5, ScalarType::kF32, kDim, 3));
    }
    return request;
  }

  test::TemporaryFolder folder_;
  test::FakeBackend backend_;
  store::CollectionStore store_{&backend_, {}};
  Metrics metrics_;
  service::TextEncoding texts_;
  std::shared_ptr<test::FakeLiveDocuments> live_ = std::make_shared<test::FakeLiveDocuments>();
  Desk desk_;
  service::DocumentService service_{&store_, &texts_, &metrics_, service::RequestLimits()};
  service::TenantDocuments gate_{&service_, &metrics_, service::ErrorSource::kServer};
  std::unique_ptr<service::Authenticator> authenticator_;
  service::CallTracker calls_;
  AnswerBudget answers_{0, nullptr};
  std::unique_ptr<GrpcDocuments> documents_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::Documents::Stub> stub_;
};

}  // namespace maxsim::rpc
