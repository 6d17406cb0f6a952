// Runs two servers of one collection. A fake stream orders their writes.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "collection/compact/create.h"
#include "server/live/live_collection.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/live/fake_stream.h"
#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::live {

using Answer = absl::StatusOr<store::WriteResults>;

// One server, with a folder of its own.
class Replica {
 public:
  Replica(Backend* backend, std::string path, FakeStreamServer* server)
      : backend_(backend), path_(std::move(path)), server_(server) {
    options_.log = LogKind::kNats;
    options_.segment_bytes = 4096;
    options_.compact_after = absl::InfiniteDuration();
    options_.compact_bytes_per_second = 0;
    options_.nats.timeout = absl::Seconds(10);
    options_.stream_patience = absl::ZeroDuration();
  }
  ~Replica() { Close(); }

  absl::Status TryOpen(bool live = true) {
    Close();
    store_ = std::make_unique<store::CollectionStore>(
        backend_, store::StoreOptions{.memory_reserve_bytes = 0, .host_reserve_bytes = 0});
    store_->SetOpenLive([this](const store::LiveRequest& request) {
      return OpenLiveCollection(
          request, options_, &threads_, nullptr, [this](const std::string&) { return server_->Connect(); }, layouts_);
    });
    const auto loaded = store_->Load("c", path_, store::Residency::kAuto, store::Replication::kAuto, "", nullptr, live);
    if (!loaded.ok()) return loaded.status();
    live_ = *store_->FindLive("c");
    return absl::OkStatus();
  }
  void Open() {
    const absl::Status status = TryOpen();
    ASSERT_TRUE(status.ok()) << status;
  }
  void Close() {
    live_.reset();
    store_.reset();
  }

  std::future<Answer> Send(std::vector<store::Write> writes) {
    auto answer = std::make_shared<std::promise<Answer>>();
    std::future<Answer> future = answer->get_future();
    live_->Submit(std::move(writes), {}, [answer](Answer results) { answer->set_value(std::move(results)); });
    return future;
  }
  Answer Write(std::vector<store::Write> writes) { return Send(std::move(writes)).get(); }
  store::WriteResults MustWrite(std::vector<store::Write> writes) {
    Answer answer = Write(std::move(writes));
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer.ok() ? *std::move(answer) : store::WriteResults();
  }

  store::LiveDocuments& live() { return *live_; }
  store::CollectionStore& store() { return *store_; }
  // From now on, live() is the collection that the store serves now, and no longer the one that Open loaded.
  void UseServed() { live_ = *store_->FindLive("c"); }
  store::LiveState state() { return live_->state(); }
  bool Reaches(uint64_t sequence) {
    test::Eventually([&] { return state().sequence >= sequence; });
    return state().sequence == sequence;
  }
  Documents Now() { return Contents(**store_->Find("c")); }

  LiveOptions options_;
  Layouts* layouts_ = nullptr;  // outlives the replica

 private:
  LiveThreads threads_{64};
  Backend* const backend_;
  const std::string path_;
  FakeStreamServer* const server_;
  std::unique_ptr<store::CollectionStore> store_;
  std::shared_ptr<store::LiveDocuments> live_;
};

class StreamedTest : public testing::Test {
 protected:
  StreamedTest() {
    const auto made = collection::CreateLiveCollection(folder_ / "a", {.name = "c", .dim = kDim});
    EXPECT_TRUE(made.ok()) << made.status();
    std::filesystem::copy(folder_ / "a", folder_ / "b", std::filesystem::copy_options::recursive);
  }
  void OpenBoth() {
    a_.Open();
    b_.Open();
    ASSERT_TRUE(LiveIsConnected(a_) && LiveIsConnected(b_));
  }
  static bool LiveIsConnected(Replica& replica) {
    return test::Eventually([&] { return replica.state().stream->connected; });
  }
  // Waits until the replica refuses writes with a status of this code. Returns its status then.
  static absl::Status WaitForRefusal(Replica& replica, absl::StatusCode code) {
    test::Eventually([&] { return replica.state().status.code() == code; });
    return replica.state().status;
  }

  const test::TemporaryFolder folder_;
  const std::unique_ptr<Backend> backend_ = *CreateCpuBackend({.num_threads = 1, .isa = ""});
  FakeStreamServer server_;
  Replica a_{backend_.get(), folder_ / "a", &server_};
  Replica b_{backend_.get(), folder_ / "b", &server_};
};

}  // namespace maxsim::live
