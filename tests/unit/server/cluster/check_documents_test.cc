// Tests how the router checks replicas' answers to writes and reads of documents: it must refuse wrong ones and accept
// right ones.
#include "server/cluster/parts/check_documents.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <string>

#include "gtest/gtest.h"

namespace maxsim::cluster {
namespace {

std::string FieldOf(const std::optional<AnswerFault>& fault) { return fault.has_value() ? fault->field : ""; }

TEST(CheckDocumentsTest, AnAcknowledgementHasOneResultPerWrite) {
  v1::UpsertRequest request;
  request.add_documents()->set_text("a text");
  request.add_documents();
  v1::UpsertResponse right;
  right.set_sequence(9);
  right.set_encoded_tokens(12);
  right.add_results()->set_outcome(v1::WRITE_OUTCOME_APPLIED);
  right.mutable_results(0)->set_sequence(9);
  right.add_results()->set_outcome(v1::WRITE_OUTCOME_STALE);
  const auto field_after = [&](const std::function<void(v1::UpsertResponse&)>& change) {
    v1::UpsertResponse answer = right;
    change(answer);
    return FieldOf(CheckUpsertAnswer(request, answer));
  };
  EXPECT_EQ(field_after([](v1::UpsertResponse&) {}), "");
  EXPECT_EQ(field_after([](v1::UpsertResponse& answer) { answer.add_results(); }), "results");
  EXPECT_EQ(field_after([](v1::UpsertResponse& answer) { answer.mutable_results()->RemoveLast(); }), "results");
  EXPECT_EQ(field_after([](v1::UpsertResponse& answer) { answer.mutable_results(1)->clear_outcome(); }), "outcome");
  EXPECT_EQ(field_after([](v1::UpsertResponse& answer) {
              answer.mutable_results(1)->set_outcome(v1::WRITE_OUTCOME_NOT_FOUND);
            }),
            "outcome");
  EXPECT_EQ(field_after([](v1::UpsertResponse& answer) {
              answer.mutable_results(1)->set_outcome(static_cast<v1::WriteOutcome>(77));
            }),
            "outcome");
  EXPECT_EQ(field_after([](v1::UpsertResponse& answer) { answer.mutable_results(0)->set_sequence(10); }), "sequence");
  EXPECT_EQ(field_after([](v1::UpsertResponse& answer) { answer.mutable_results(0)->set_sequence(0); }), "sequence");
  EXPECT_EQ(field_after([](v1::UpsertResponse& answer) { answer.set_encoded_tokens(65537); }), "encoded_tokens");
}

TEST(CheckDocumentsTest, ADeleteMayFindNothing) {
  v1::DeleteRequest request;
  request.mutable_int_ids()->add_ids(5);
  v1::DeleteResponse answer;
  answer.add_results()->set_outcome(v1::WRITE_OUTCOME_NOT_FOUND);
  EXPECT_EQ(FieldOf(CheckDeleteAnswer(request, answer)), "");
  answer.add_results()->set_outcome(v1::WRITE_OUTCOME_NOT_FOUND);
  EXPECT_EQ(FieldOf(CheckDeleteAnswer(request, answer)), "results");
}

TEST(CheckDocumentsTest, TheNumbersOfADeleteWithAFilterAgree) {
  v1::DeleteRequest request;
  request.set_filter_text("year < 2000");
  request.set_min_sequence(100'000);
  request.set_version(3);
  v1::DeleteResponse right;
  right.set_num_deleted(99'000);
  right.set_num_missing(600);
  right.set_num_stale(400);
  right.set_sequence(100'000);
  right.set_has_more(true);
  const auto field_after = [&](const std::function<void(v1::DeleteResponse&)>& change) {
    v1::DeleteResponse answer = right;
    change(answer);
    return FieldOf(CheckDeleteAnswer(request, answer));
  };
  EXPECT_EQ(field_after([](v1::DeleteResponse&) {}), "");
  EXPECT_EQ(field_after([](v1::DeleteResponse& answer) { answer.set_has_more(false); }), "");
  EXPECT_EQ(field_after([](v1::DeleteResponse& answer) { answer.set_num_deleted(99'001); }), "num_deleted");
  EXPECT_EQ(field_after([](v1::DeleteResponse& answer) { answer.set_num_missing(601); }), "num_deleted");
  EXPECT_EQ(field_after([](v1::DeleteResponse& answer) { answer.set_num_stale(UINT64_MAX); }), "num_deleted");
  EXPECT_EQ(field_after([](v1::DeleteResponse& answer) { answer.set_sequence(99'999); }), "sequence");
  EXPECT_EQ(field_after([](v1::DeleteResponse& answer) { answer.add_results(); }), "results");
  EXPECT_EQ(field_after([](v1::DeleteResponse& answer) {
              answer.clear_num_deleted();
              answer.clear_num_missing();
              answer.clear_num_stale();
            }),
            "has_more");
  request.clear_version();
  EXPECT_EQ(field_after([](v1::DeleteResponse&) {}), "num_stale");
  right.clear_num_stale();
  EXPECT_EQ(field_after([](v1::DeleteResponse&) {}), "");
  request.clear_min_sequence();
  EXPECT_EQ(field_after([](v1::DeleteResponse& answer) { answer.set_sequence(98'999); }), "num_deleted");
}

class CheckGetTest : public testing::Test {
 protected:
  CheckGetTest() {
    for (const char* id : {"a", "b", "a", "none"}) request_.mutable_string_ids()->add_ids(id);
    request_.set_return_tokens(true);
    for (const char* id : {"a", "b", "a"}) {
      v1::StoredDocument& document = *right_.add_documents();
      document.set_string_id(id);
      document.set_num_tokens(3);
      v1::TokenMatrix& tokens = *document.mutable_tokens();
      tokens.set_dtype(v1::DATA_TYPE_F16);
      tokens.set_num_tokens(3);
      tokens.set_dim(8);
      tokens.set_data(std::string(3 * 8 * 2, '\0'));
    }
    right_.mutable_missing_string_ids()->add_ids("none");
  }

  std::string FieldAfter(const std::function<void(v1::GetResponse&)>& change) const {
    v1::GetResponse answer = right_;
    change(answer);
    return FieldOf(CheckGetAnswer(request_, {.storage = v1::DATA_TYPE_F16, .dim = 8}, answer));
  }

  v1::GetRequest request_;
  v1::GetResponse right_;
};

TEST_F(CheckGetTest, EveryIdIsFoundOrMissing) {
  EXPECT_EQ(FieldAfter([](v1::GetResponse&) {}), "");
  EXPECT_EQ(FieldAfter([](v1::GetResponse& answer) { answer.mutable_documents()->RemoveLast(); }), "ids");
  EXPECT_EQ(FieldAfter([](v1::GetResponse& answer) { answer.mutable_documents()->SwapElements(0, 1); }), "ids");
  EXPECT_EQ(FieldAfter([](v1::GetResponse& answer) { answer.mutable_documents(1)->set_string_id("c"); }), "ids");
  EXPECT_EQ(FieldAfter([](v1::GetResponse& answer) { answer.mutable_documents(1)->set_int_id(1); }), "ids");
  EXPECT_EQ(FieldAfter([](v1::GetResponse& answer) { answer.clear_missing_string_ids(); }), "ids");
  EXPECT_EQ(FieldAfter([](v1::GetResponse& answer) { answer.mutable_missing_string_ids()->add_ids("more"); }), "ids");
  EXPECT_EQ(FieldAfter([](v1::GetResponse& answer) { answer.mutable_missing_int_ids()->add_ids(1); }), "ids");
}

TEST_F(CheckGetTest, TokensHaveTheCollectionsForm) {
  const auto after = [this](const std::function<void(v1::StoredDocument&)>& change) {
    return FieldAfter([&](v1::GetResponse& answer) { change(*answer.mutable_documents(1)); });
  };
  EXPECT_EQ(after([](v1::StoredDocument& document) { document.set_num_tokens(0); }), "num_tokens");
  EXPECT_EQ(after([](v1::StoredDocument& document) { document.set_num_tokens(4); }), "tokens");
  EXPECT_EQ(after([](v1::StoredDocument& document) { document.clear_tokens(); }), "tokens");
  EXPECT_EQ(after([](v1::StoredDocument& document) { document.set_scale(std::nanf("")); }), "scale");
  EXPECT_EQ(after([](v1::StoredDocument& document) { document.mutable_tokens()->set_dim(16); }), "tokens");
  EXPECT_EQ(after([](v1::StoredDocument& document) { document.mutable_tokens()->set_dtype(v1::DATA_TYPE_BF16); }),
            "tokens");
  EXPECT_EQ(after([](v1::StoredDocument& document) { document.mutable_tokens()->mutable_data()->pop_back(); }),
            "tokens");
  request_.set_return_tokens(false);
  EXPECT_EQ(FieldAfter([](v1::GetResponse&) {}), "tokens");
}

TEST_F(CheckGetTest, TheAnswerHasSeenTheSequence) {
  request_.set_min_sequence(4);
  EXPECT_EQ(FieldAfter([](v1::GetResponse& answer) { answer.set_sequence(3); }), "sequence");
  EXPECT_EQ(FieldAfter([](v1::GetResponse& answer) { answer.set_sequence(4); }), "");
}

}  // namespace
}  // namespace maxsim::cluster
