// Two servers of one collection, whose writes a fake stream orders.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/monotonic_clock.h"
#include "collection/compact/create.h"
#include "server/live/live_collection.h"
#include "server/live/stream/stream_message.h"
#include "tests/support/values/eventually.h"
#include "tests/unit/server/live/fake_stream.h"
#include "tests/unit/server/live/live_fixture.h"

namespace maxsim::live {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
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
  }
  ~Replica() { Close(); }

  absl::Status TryOpen(bool live = true) {
    Close();
    store_ = std::make_unique<store::CollectionStore>(
        backend_, store::StoreOptions{.memory_reserve_bytes = 0, .host_reserve_bytes = 0});
    store_->SetOpenLive([this](const store::LiveRequest& request) {
      return OpenLiveCollection(request, options_, &threads_, nullptr,
                                [this](const std::string&) { return server_->Connect(); });
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
  store::LiveState state() { return live_->state(); }
  bool Reaches(uint64_t sequence) {
    test::Eventually([&] { return state().sequence >= sequence; });
    return state().sequence == sequence;
  }
  Documents Now() { return Contents(**store_->Find("c")); }

  LiveOptions options_;

 private:
  LiveThreads threads_{64};
  Backend* const backend_;
  const std::string path_;
  FakeStreamServer* const server_;
  std::unique_ptr<store::CollectionStore> store_;
  std::shared_ptr<store::LiveDocuments> live_;
};

class StreamedCollectionTest : public testing::Test {
 protected:
  StreamedCollectionTest() {
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
  // Waits until the reason why nothing can be written is one of this code.
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

TEST_F(StreamedCollectionTest, GivesEachWriteTheSequenceOfItsMessageOnEveryServer) {
  OpenBoth();
  const auto first = a_.MustWrite(List(Upsert("x", 1), Upsert("y", 2)));
  EXPECT_EQ(Outcomes(first), "AA");
  EXPECT_EQ(first.results[0].sequence, 1u);
  EXPECT_EQ(first.results[1].sequence, 2u);
  const auto second = b_.MustWrite(List(Upsert("x", 3), Delete("y")));
  EXPECT_EQ(Outcomes(second), "AA");
  EXPECT_EQ(second.results[1].sequence, 4u);
  EXPECT_EQ(second.sequence, 4u);
  ASSERT_TRUE(a_.Reaches(4));
  EXPECT_EQ(a_.Now(), (Documents{{"x", 3}}));
  EXPECT_EQ(b_.Now(), a_.Now());
  EXPECT_EQ(a_.state().lag(), 0u);
}

TEST_F(StreamedCollectionTest, DecidesAboutStaleAndMissingWritesByTheOrderOfTheStream) {
  OpenBoth();
  EXPECT_EQ(Outcomes(a_.MustWrite(List(Upsert("x", 1, 5)))), "A");
  const auto stale = b_.MustWrite(List(Upsert("x", 2, 5), Delete("none"), Upsert("x", 3, 6), Delete("none", 2)));
  EXPECT_EQ(Outcomes(stale), "SNAN");
  EXPECT_EQ(stale.results[0].sequence, 0u);
  EXPECT_EQ(stale.results[1].sequence, 0u);
  EXPECT_EQ(stale.results[2].sequence, 4u);
  EXPECT_EQ(stale.results[3].sequence, 5u);
  ASSERT_TRUE(a_.Reaches(5));
  EXPECT_EQ(a_.Now(), (Documents{{"x", 3}}));
  EXPECT_EQ(a_.live().VersionOf("none").value_or(0), 2u);
  // What is skipped has its place in the log, before and after a start and a compaction.
  a_.Open();
  EXPECT_EQ(a_.Now(), (Documents{{"x", 3}}));
  EXPECT_EQ(a_.state().sequence, 5u);
  bool changed = false;
  ASSERT_TRUE(a_.live().Compact(nullptr, &changed).ok());
  EXPECT_EQ(a_.state().compacted_sequence, 5u);
  EXPECT_EQ(Outcomes(a_.MustWrite(List(Upsert("x", 9, 6)))), "S");
  EXPECT_EQ(a_.Now(), (Documents{{"x", 3}}));
}

TEST_F(StreamedCollectionTest, SkipsWhatNobodyCanApply) {
  OpenBoth();
  server_.Add("nonsense");
  server_.Add("");
  const collection::LogFormat other = {
      .id_type = collection::IdType::kInt64, .storage = ScalarType::kF16, .dim = kDim, .rotation_seed = 0};
  server_.Add(EncodeMessage(Delete(""), other));
  EXPECT_EQ(a_.MustWrite(List(Upsert("x", 1))).sequence, 4u);
  ASSERT_TRUE(b_.Reaches(4));
  EXPECT_EQ(b_.Now(), (Documents{{"x", 1}}));
}

TEST_F(StreamedCollectionTest, CatchesUpWithWhatWasWrittenWhileItWasClosed) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1), Upsert("y", 1)));
  ASSERT_TRUE(b_.Reaches(2));
  b_.Close();
  for (int value = 2; value < 40; ++value) a_.MustWrite(List(Upsert("x", value)));
  b_.Open();
  ASSERT_TRUE(b_.Reaches(40));
  EXPECT_EQ(b_.Now(), a_.Now());
}

TEST_F(StreamedCollectionTest, WritesWhatAnswersWereLostOfOnce) {
  OpenBoth();
  server_.Set({.lose_answers = true});
  EXPECT_EQ(Outcomes(a_.MustWrite(List(Upsert("x", 1), Upsert("y", 2)))), "AA");
  EXPECT_EQ(server_.num_messages(), 2u);
}

TEST_F(StreamedCollectionTest, SendsWhatWasLostAgain) {
  a_.options_.nats.timeout = absl::Seconds(4);
  OpenBoth();
  server_.Set({.lose_publishes = 2});
  EXPECT_EQ(Outcomes(a_.MustWrite(List(Upsert("x", 1), Upsert("x", 2)))), "AA");
  EXPECT_EQ(a_.Now(), (Documents{{"x", 2}}));
  EXPECT_EQ(server_.num_messages(), 2u);
  EXPECT_GE(server_.num_publishes(), 4u);
}

TEST_F(StreamedCollectionTest, NeverWritesAnEarlierWriteOfAnIdBehindALaterOne) {
  a_.options_.nats.timeout = absl::Seconds(4);
  OpenBoth();
  server_.Set({.lose_publishes = 1});
  std::future<Answer> first = a_.Send(List(Upsert("x", 1), Upsert("x", 2), Upsert("y", 2)));
  std::future<Answer> second = a_.Send(List(Upsert("x", 3), Upsert("z", 3)));
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
  EXPECT_EQ(server_.num_messages(), 5u);
  EXPECT_EQ(a_.Now(), (Documents{{"x", 3}, {"y", 2}, {"z", 3}}));
}

TEST_F(StreamedCollectionTest, TakesNoWritesWhileTheStreamIsAwayAndGoesOnAfterwards) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1)));
  a_.options_.nats.timeout = absl::Milliseconds(300);
  a_.Open();
  server_.Set({.away = true});
  const Answer answer = a_.Write(List(Upsert("x", 2)));
  EXPECT_TRUE(absl::IsUnavailable(answer.status())) << answer.status();
  EXPECT_EQ(a_.Now(), (Documents{{"x", 1}}));
  EXPECT_FALSE(a_.state().stream->connected);
  EXPECT_THAT(std::string(a_.state().status.message()), HasSubstr("the fake stream does not answer"));
  server_.Set({});
  ASSERT_TRUE(LiveIsConnected(a_) && LiveIsConnected(b_));
  const uint64_t sequence = a_.MustWrite(List(Upsert("x", 3))).sequence;
  EXPECT_EQ(sequence, server_.num_messages());
  ASSERT_TRUE(b_.Reaches(sequence));
  EXPECT_EQ(b_.Now(), (Documents{{"x", 3}}));
}

TEST_F(StreamedCollectionTest, IsServedWhileTheStreamIsAwayFromTheBeginning) {
  a_.Open();
  ASSERT_TRUE(LiveIsConnected(a_));
  a_.MustWrite(List(Upsert("x", 1)));
  server_.Set({.away = true});
  a_.Open();
  EXPECT_EQ(a_.Now(), (Documents{{"x", 1}}));
  server_.Set({});
  ASSERT_TRUE(LiveIsConnected(a_));
  EXPECT_EQ(a_.MustWrite(List(Upsert("x", 2))).sequence, 2u);
}

TEST_F(StreamedCollectionTest, SaysOfAWriteThatTheStreamRefusedThatItIsNotThere) {
  OpenBoth();
  server_.Set({.refuse = true});
  const Answer answer = a_.Write(List(Upsert("x", 1)));
  EXPECT_TRUE(absl::IsResourceExhausted(answer.status())) << answer.status();
  EXPECT_EQ(server_.num_messages(), 0u);
}

TEST_F(StreamedCollectionTest, RefusesAMessageThatIsTooLargeWithBothNumbers) {
  OpenBoth();
  const auto size = EncodeMessage(Upsert("x", 4), {.storage = ScalarType::kF16, .dim = kDim}).size();
  server_.Set({.max_message_bytes = static_cast<int64_t>(size)});
  EXPECT_EQ(Outcomes(a_.MustWrite(List(Upsert("x", 4)))), "A");
  server_.Set({.max_message_bytes = static_cast<int64_t>(size) - 1});
  const Answer answer = a_.Write(List(Upsert("y", 1), Upsert("x", 4)));
  EXPECT_TRUE(absl::IsInvalidArgument(answer.status())) << answer.status();
  EXPECT_THAT(std::string(answer.status().message()),
              AllOf(HasSubstr("documents[1]"), HasSubstr(absl::StrCat(size)), HasSubstr(absl::StrCat(size - 1))));
  EXPECT_EQ(server_.num_messages(), 1u);
}

TEST_F(StreamedCollectionTest, RefusesAStreamThatWasMadeAnewAndNamesBoth) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1)));
  server_.MakeAnew();
  const absl::Status status = WaitForRefusal(a_, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("1970-01-01T00:00:00.000001Z"), HasSubstr("1970-01-01T00:00:00.000001001Z")));
  EXPECT_EQ(a_.Now(), (Documents{{"x", 1}}));
  EXPECT_TRUE(absl::IsFailedPrecondition(a_.Write(List(Upsert("x", 2))).status()));
  EXPECT_EQ(server_.num_messages(), 0u);
}

TEST_F(StreamedCollectionTest, RefusesAStreamThatHasLostMessages) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1), Upsert("y", 2)));
  a_.Close();
  server_.LoseBehind(1);
  a_.Open();
  const absl::Status status = WaitForRefusal(a_, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("up to sequence 2"), HasSubstr("ends with sequence 1")));
  EXPECT_EQ(a_.Now(), (Documents{{"x", 1}, {"y", 2}}));
}

TEST_F(StreamedCollectionTest, SaysThatItNeedsASnapshotWhereTheStreamHasDroppedWhatItLacks) {
  OpenBoth();
  a_.MustWrite(List(Upsert("x", 1)));
  ASSERT_TRUE(b_.Reaches(1));
  b_.Close();
  a_.MustWrite(List(Upsert("x", 2), Upsert("y", 2)));
  server_.Drop(2);
  b_.Open();
  const absl::Status status = WaitForRefusal(b_, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("up to sequence 1"), HasSubstr("begins with sequence 3"), HasSubstr("snapshot")));
  EXPECT_EQ(b_.Now(), (Documents{{"x", 1}}));
  // A snapshot of the other server has what is gone.
  const auto sequence = a_.live().SnapshotTo(folder_ / "c", nullptr);
  ASSERT_EQ(sequence.value_or(0), 3u);
  Replica c(backend_.get(), folder_ / "c", &server_);
  c.Open();
  ASSERT_TRUE(LiveIsConnected(c));
  EXPECT_EQ(c.MustWrite(List(Upsert("z", 3))).sequence, 4u);
  EXPECT_EQ(c.Now(), (Documents{{"x", 2}, {"y", 2}, {"z", 3}}));
}

TEST_F(StreamedCollectionTest, StopsBeforeAGapThatLiesWithinABatch) {
  OpenBoth();
  b_.Close();
  a_.MustWrite(List(Upsert("x", 1), Upsert("y", 2), Upsert("z", 3)));
  server_.Delete(2);
  b_.Open();
  const absl::Status status = WaitForRefusal(b_, absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("up to sequence 1"), HasSubstr("next one has 3")));
  EXPECT_EQ(b_.Now(), (Documents{{"x", 1}})) << "z is not taken for the write of sequence 2";
}

TEST_F(StreamedCollectionTest, IsNotOpenedWithALogOfTheOtherKind) {
  a_.Open();
  ASSERT_TRUE(LiveIsConnected(a_));
  a_.MustWrite(List(Upsert("x", 1)));
  a_.options_.log = LogKind::kLocal;
  const absl::Status local = a_.TryOpen();
  EXPECT_TRUE(absl::IsFailedPrecondition(local)) << local;
  EXPECT_THAT(std::string(local.message()), AllOf(HasSubstr("stream fake"), HasSubstr("live.log is local")));
  b_.options_.log = LogKind::kLocal;
  b_.Open();
  b_.MustWrite(List(Upsert("x", 1)));
  b_.options_.log = LogKind::kNats;
  const absl::Status streamed = b_.TryOpen();
  EXPECT_TRUE(absl::IsFailedPrecondition(streamed)) << streamed;
  EXPECT_THAT(std::string(streamed.message()), AllOf(HasSubstr("up to sequence 1"), HasSubstr("live.log is nats")));
}

TEST_F(StreamedCollectionTest, DoesNotBeginALogAnewForShardsThatHoldWrites) {
  a_.Open();
  ASSERT_TRUE(LiveIsConnected(a_));
  a_.MustWrite(List(Upsert("x", 1, 7)));
  bool changed = false;
  ASSERT_TRUE(a_.live().Compact(nullptr, &changed).ok());
  a_.Close();
  std::filesystem::remove_all(folder_ / "a/log");
  const absl::Status status = a_.TryOpen();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("up to sequence 1"));
}

TEST_F(StreamedCollectionTest, WaitsForACompactionWhereSegmentsAreFull) {
  a_.options_.max_segment_bytes = 8192;
  a_.options_.compact = false;
  OpenBoth();
  // b takes what a has no room for: they differ in their segments alone.
  Documents expected;
  for (int value = 0; value < 200; ++value) {
    const std::string id = absl::StrCat("id", value);
    expected[id] = value;
    b_.MustWrite(List(Upsert(id, value)));
  }
  const absl::Status full = WaitForRefusal(a_, absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  const uint64_t before = server_.num_publishes();
  const Answer refused = a_.Write(List(Upsert("x", 1)));
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status())) << refused.status();
  EXPECT_EQ(server_.num_publishes(), before);
  ASSERT_TRUE(test::Eventually([&] {
    bool changed = false;
    EXPECT_TRUE(a_.live().Compact(nullptr, &changed).ok());
    return a_.state().sequence >= 200;
  }));
  ASSERT_TRUE(a_.Reaches(200));
  EXPECT_EQ(a_.Now(), expected);
  // The last of the 200 may have taken the last room.
  bool changed = false;
  ASSERT_TRUE(a_.live().Compact(nullptr, &changed).ok());
  EXPECT_EQ(a_.MustWrite(List(Upsert("id0", 5))).sequence, 201u);
}

TEST_F(StreamedCollectionTest, AgreesOnEveryServerWhateverIsWrittenWhere) {
  OpenBoth();
  constexpr int kCalls = 150;
  const auto write = [](Replica& replica, int seed) {
    for (int call = 0; call < kCalls; ++call) {
      const std::string id = absl::StrCat("id", (call * 7 + seed) % 20);
      const uint64_t version = call % 3 == 0 ? static_cast<uint64_t>(1 + call % 17) : 0;
      if (call % 5 == 4) {
        replica.MustWrite(List(Delete(id, version)));
      } else {
        replica.MustWrite(List(Upsert(id, 1000 * seed + call, version), Upsert(id, 1000 * seed + call + 1)));
      }
    }
  };
  std::thread other([&] { write(b_, 2); });
  write(a_, 1);
  other.join();
  ASSERT_TRUE(a_.Reaches(server_.num_messages()) && b_.Reaches(server_.num_messages()));
  EXPECT_EQ(a_.Now(), b_.Now());
  a_.Open();
  EXPECT_EQ(a_.Now(), b_.Now());
}

TEST_F(StreamedCollectionTest, AgreesOnEveryServerWhatIsForgotten) {
  for (const std::string_view name : {"a", "b"}) {
    std::filesystem::remove_all(folder_ / std::string(name));
    CreateWithMemory(folder_ / std::string(name), 300);
  }
  OpenBoth();
  const auto write = [](Replica& replica, int seed) {
    std::mt19937 random(seed);
    for (int call = 0; call < 60; ++call) {
      std::vector<store::Write> writes;
      for (int idx = 0; idx < 8; ++idx) {
        const std::string id = absl::StrCat("id", random() % 12);
        const uint64_t version = 1 + random() % 40;
        writes.push_back(random() % 2 == 0 ? Delete(id, version) : Upsert(id, 1000 * seed + call, version));
      }
      replica.MustWrite(std::move(writes));
      // Only one of them compacts and starts again, which drops what is forgotten there.
      bool changed = false;
      if (seed == 1 && call % 10 == 9) {
        EXPECT_TRUE(replica.live().Compact(nullptr, &changed).ok());
      }
      if (seed != 1 || call % 20 != 19) continue;
      replica.Open();
      ASSERT_TRUE(LiveIsConnected(replica));
    }
  };
  std::thread other([&] { write(b_, 2); });
  write(a_, 1);
  other.join();
  ASSERT_TRUE(a_.Reaches(server_.num_messages()) && b_.Reaches(server_.num_messages()));
  EXPECT_EQ(a_.Now(), b_.Now());
  for (int idx = 0; idx < 12; ++idx) {
    const std::string id = absl::StrCat("id", idx);
    EXPECT_EQ(a_.live().VersionOf(std::string_view(id)).value_or(98),
              b_.live().VersionOf(std::string_view(id)).value_or(99))
        << id;
  }
}

TEST_F(StreamedCollectionTest, AnswersWhatItAcceptedBeforeItStops) {
  OpenBoth();
  std::vector<std::future<Answer>> answers;
  for (int value = 0; value < 50; ++value) answers.push_back(a_.Send(List(Upsert("x", value))));
  a_.Close();
  for (std::future<Answer>& answer : answers) EXPECT_TRUE(answer.get().ok());
  ASSERT_TRUE(b_.Reaches(50));
  EXPECT_EQ(b_.Now(), (Documents{{"x", 49}}));
}

}  // namespace
}  // namespace maxsim::live
