// Tests memory that runs out while an HTTP answer or error is written. Only this answer may fail, and the process must
// go on.
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

#include "absl/synchronization/notification.h"
#include "client/error_details.h"
#include "server/http/rerank/explain_json.h"
#include "server/http/rerank/rerank_calls.h"
#include "server/http/rerank/rerank_json.h"
#include "server/observability/metrics.h"
#include "server/service/call/message_descriptors.h"
#include "server/service/call/status.h"
#include "tests/support/values/failing_memory.h"

namespace maxsim::http {
namespace {

using test::FailAtEachAllocation;
using testing::HasSubstr;

// Returns a text that needs escapes in JSON and is long enough to need its own allocation.
std::string LongText(const char* name) { return std::string(name) + " \"" + std::string(40, 'x') + "\"\n"; }

v1::RerankResponse FullResponse() {
  v1::RerankResponse response;
  response.set_request_id(LongText("request"));
  response.set_generation(7);
  response.set_sequence(8);
  response.set_encoded_tokens(2);
  v1::QueryResult& result = *response.add_results();
  for (uint32_t i = 0; i < 3; ++i) {
    result.mutable_string_ids()->add_ids(LongText("id"));
    result.add_scores(1.5F);
    result.add_positions(i);
    result.add_payloads("{\"title\":\"a title that is longer than a short string\"}");
    v1::Alignment& alignment = *result.add_alignments();
    alignment.add_document_tokens(i);
    alignment.add_similarities(0.5F);
  }
  result.mutable_missing_string_ids()->add_ids(LongText("missing"));
  result.add_query_tokens(LongText("token"));
  result.mutable_refinement()->set_documents(5);
  result.mutable_refinement()->set_outside_score(0.25F);
  return response;
}

absl::Status FullError() {
  return service::FieldError(absl::StatusCode::kNotFound, client::kReasonUnknownIds, "candidates.string_ids",
                             LongText("no such documents as"));
}

class AnswerMemoryTest : public testing::Test {
 protected:
  // As a server does at its start.
  static void SetUpTestSuite() { service::BuildMessageDescriptors(); }
};

TEST_F(AnswerMemoryTest, AnErrorIsWrittenWholeOrNotAtAll) {
  const absl::Status error = FullError();
  for (auto* const format : {&FormatError, &FormatServiceError, &FormatExplainError}) {
    std::string text;
    EXPECT_GT(FailAtEachAllocation([&] { text = format(error); }), 3);
    EXPECT_EQ(text, format(error));
    EXPECT_THAT(text, HasSubstr("\"reason\":\"UNKNOWN_IDS\""));
  }
}

TEST_F(AnswerMemoryTest, AnAnswerIsWrittenWholeOrNotAtAll) {
  const v1::RerankResponse response = FullResponse();
  for (const AnswerShape shape :
       {AnswerShape::kResults, AnswerShape::kData, AnswerShape::kList, AnswerShape::kRankings}) {
    const AnswerForm form{.model = LongText("model"), .shape = shape};
    std::string text;
    EXPECT_GT(FailAtEachAllocation([&] { text = FormatRerankResponse(form, response); }), 10);
    EXPECT_EQ(text, FormatRerankResponse(form, response));
  }
}

TEST_F(AnswerMemoryTest, AnExplanationIsWrittenWholeOrNotAtAll) {
  v1::ExplainResponse explanation;
  v1::Candidates document;
  document.mutable_string_ids()->add_ids(LongText("id"));
  explanation.set_num_query_tokens(1);
  explanation.set_num_document_tokens(2);
  for (int i = 0; i < 2; ++i) {
    explanation.add_similarities(0.5);
    explanation.add_document_tokens(LongText("word"));
  }
  explanation.add_query_tokens(LongText("word"));
  std::string text;
  EXPECT_GT(FailAtEachAllocation([&] { text = FormatExplanation("c", document, explanation); }), 5);
  EXPECT_EQ(text, FormatExplanation("c", document, explanation));
}

// Keeps the call, for the test to answer.
class KeepingService final : public service::RerankApi {
 public:
  void Rerank(v1::RerankRequest&&, service::CallContext&&, service::Done<v1::RerankResponse>&& done) override {
    done_ = std::move(done);
  }
  absl::Status ChooseCollection(const service::Caller&, v1::RerankRequest*) const override { return absl::OkStatus(); }
  void CountUnread(std::string_view, absl::Time, const absl::Status&) override {}
  const service::RequestLimits& limits() const override { return limits_; }
  std::unique_ptr<v1::EncoderInfo> encoder() const override { return nullptr; }

  service::Done<v1::RerankResponse> Take() { return std::move(done_); }

 private:
  const service::RequestLimits limits_;
  service::Done<v1::RerankResponse> done_;
};

class RerankCallsMemoryTest : public AnswerMemoryTest {
 protected:
  // Runs `work` on the pool's thread, after all work that the thread already has.
  void RunOnPool(std::function<void()> work) {
    absl::Notification done;
    boost::asio::post(pool_, [&] {
      work();
      done.Notify();
    });
    done.WaitForNotification();
  }

  // Answers a call with `response`. Meanwhile this thread has memory for `here` allocations, and the pool's thread for
  // `on_pool`. Returns the HTTP status. Fails the test unless the call gets exactly one reply.
  int Answer(const absl::StatusOr<v1::RerankResponse>& response, int64_t here, int64_t on_pool) {
    std::atomic<int> num_replies{0};
    std::atomic<int> status{0};
    auto reply = std::make_shared<ReplyOnce>(service::FinishedCall{.metrics = &metrics_, .method = "Rerank"},
                                             [&](const Response& answered) {
                                               ++num_replies;
                                               status = answered.status;
                                             });
    const CallEnd end{.cancelled = std::make_shared<std::atomic<bool>>(false), .closing = &closing_};
    Request request;
    request.body = R"({"query": [[1, 2, 3, 4, 5, 6, 7, 8]], "model": "c", "documents": ["a", "b"]})";
    service::CallContext context{.method = "Rerank"};
    context.record = reply->record();
    calls_.Rerank(std::move(request), kRerankPaths[0], std::move(context), std::move(reply), end);
    service::Done<v1::RerankResponse> done = service_.Take();
    absl::StatusOr<v1::RerankResponse> answer = response;
    RunOnPool([&] { test::allocations_left = on_pool; });
    {
      const test::MemoryEnds ends(here);
      done(std::move(answer));
      done = nullptr;
    }
    RunOnPool([] { test::allocations_left = test::kEnoughMemory; });
    EXPECT_EQ(num_replies, 1);
    return status;
  }

  Metrics metrics_;
  KeepingService service_;
  TextPlaces places_{4};
  std::atomic<bool> closing_{false};
  boost::asio::thread_pool pool_{1};
  RerankCalls calls_{&service_, nullptr, &metrics_, &places_, &pool_, /*root_documents_are_texts=*/false};
};

TEST_F(RerankCallsMemoryTest, EachCallIsAnsweredOnceWhereverMemoryEnds) {
  for (const bool is_error : {false, true}) {
    const absl::StatusOr<v1::RerankResponse> response =
        is_error ? absl::StatusOr<v1::RerankResponse>(FullError()) : FullResponse();
    const int whole = is_error ? 404 : 200;
    int count = 0;
    for (; Answer(response, count, test::kEnoughMemory) != whole; ++count) ASSERT_LT(count, 10'000);
    const int failed_here = count;
    for (count = 0; Answer(response, test::kEnoughMemory, count) != whole; ++count) ASSERT_LT(count, 10'000);
    // Errors are written by the answering thread, other answers on the pool. So one of the two counts must be large.
    EXPECT_GT(is_error ? failed_here : count, 10);
  }
}

}  // namespace
}  // namespace maxsim::http
