// Tests all errors in a document to be written, and what is stored for a valid one.
#include "server/service/documents/document_write.h"

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "collection/shard_contents.h"
#include "server/service/request/candidates.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"
#include "tests/support/requests.h"

namespace maxsim::service {
namespace {

using testing::HasSubstr;

constexpr int32_t kDim = 16;

std::string Path() { return "documents[3]"; }

class DocumentWriteTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    world_ = new World;
    const auto load = [](const char* name, const test::RandomDocuments& documents, const test::CorpusOptions& options) {
      test::BuildCorpus(world_->folder / name, documents, options);
      return test::LoadCorpus(world_->folder / name, &world_->backend);
    };
    world_->f16 = load("f16", test::SmallDocuments(1, 8, ScalarType::kF16, kDim), {});
    world_->f32 = load("f32", test::SmallDocuments(1, 8, ScalarType::kF32, kDim), {});
    world_->bf16 = load("bf16", test::SmallDocuments(1, 8, ScalarType::kBF16, kDim), {});
    test::RandomDocuments quantised = test::SmallDocuments(1, 8, ScalarType::kF32, kDim);
    quantised.rotation_seed = 12345;
    world_->i8 = load("i8", quantised, {.storage = ScalarType::kI8});
    test::CorpusOptions with_fields{.payloads = true};
    with_fields.fields = *collection::ParseFields("year:integer=meta.year");
    with_fields.payload_texts = std::vector<std::string>(8, "{}");
    world_->fields = load("fields", test::SmallDocuments(1, 8, ScalarType::kF16, kDim), with_fields);
    world_->ints =
        load("ints", test::SmallDocuments(1, 8, ScalarType::kF16, kDim), {.id_type = collection::IdType::kInt64});
  }
  static void TearDownTestSuite() { delete world_; }

  static v1::Document Valid() {
    v1::Document document;
    document.set_string_id("new");
    *document.mutable_tokens() = test::ToProto(test::RandomTokens(5, ScalarType::kF32, kDim, 3));
    document.set_payload(R"({"title": "A \u00e9"})");
    document.set_version(17);
    return document;
  }

  static absl::StatusOr<store::Write> Run(v1::Document document, const store::Collection& collection,
                                          const RequestLimits& limits = {}) {
    const DocumentRules rules = DocumentRulesOf(collection, limits);
    collection::FieldReader reader(rules.fields);
    if (absl::Status status = CheckDocument(document, rules, reader, Path); !status.ok()) return status;
    return ToWrite(document, rules, Path, loss_);
  }

  // Applies `change` to a valid document and expects INVALID_ARGUMENT. Returns the error's message.
  static std::string Refused(const std::function<void(v1::Document*)>& change, const RequestLimits& limits = {}) {
    v1::Document document = Valid();
    change(&document);
    const absl::Status status = Run(document, *world_->f16, limits).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  }

  inline static collection::QuantizationLoss loss_;  // of all documents that were written

  struct World {
    test::TemporaryFolder folder;
    test::FakeBackend backend;
    std::shared_ptr<const store::Collection> f16;
    std::shared_ptr<const store::Collection> f32;
    std::shared_ptr<const store::Collection> bf16;
    std::shared_ptr<const store::Collection> i8;
    std::shared_ptr<const store::Collection> ints;
    std::shared_ptr<const store::Collection> fields;
  };
  static World* world_;
};
DocumentWriteTest::World* DocumentWriteTest::world_ = nullptr;

TEST_F(DocumentWriteTest, AValidDocumentBecomesAnUpsert) {
  const auto write = Run(Valid(), *world_->f16);
  ASSERT_TRUE(write.ok()) << write.status();
  EXPECT_EQ(write->kind, collection::LogRecord::Kind::kUpsert);
  EXPECT_EQ(write->string_id, "new");
  EXPECT_EQ(write->version, 17u);
  EXPECT_EQ(write->num_tokens, 3);
  EXPECT_EQ(write->rows.size(), 3u * kDim * 2);
  EXPECT_EQ(write->payload, R"({"title": "A \u00e9"})");
  EXPECT_EQ(write->scale, 0);
}

TEST_F(DocumentWriteTest, IntegerIdsAreThoseOfACollectionThatHasThem) {
  v1::Document document = Valid();
  document.set_int_id(-5);
  const auto write = Run(document, *world_->ints);
  ASSERT_TRUE(write.ok()) << write.status();
  EXPECT_EQ(write->int_id, -5);
  EXPECT_EQ(write->string_id, "");
  document.set_string_id("five");
  EXPECT_EQ(Run(document, *world_->ints).status().message(),
            "documents[3].string_id: the ids of collection corpus are of type int64");
}

// A write must store the same bits that a request scores if it carries the document inline. Tests every type of vector
// values that a client may send with every storage type.
TEST_F(DocumentWriteTest, RowsAreThoseOfInlineDocuments) {
  for (const auto& collection : {world_->f16, world_->f32, world_->bf16, world_->i8}) {
    for (const ScalarType sent : {ScalarType::kF32, ScalarType::kF16, ScalarType::kBF16}) {
      SCOPED_TRACE(std::string(Name(collection->storage())) + " from " + std::string(Name(sent)));
      v1::Document document = Valid();
      *document.mutable_tokens() = test::ToProto(test::RandomTokens(9, sent, kDim, 5));
      v1::Candidates candidates;
      *candidates.mutable_inline_documents()->add_documents() = document.tokens();
      const auto inline_document = ResolveCandidates(candidates, *collection, nullptr, {}, false, Path);
      ASSERT_TRUE(inline_document.ok()) << inline_document.status();
      const auto write = Run(document, *collection);
      ASSERT_TRUE(write.ok()) << write.status();
      EXPECT_EQ(write->rows, (*inline_document)->set->inline_tokens);
      if (collection->storage() == ScalarType::kI8) {
        ASSERT_EQ((*inline_document)->set->inline_scales.size(), 1u);
        EXPECT_EQ(write->scale, (*inline_document)->set->inline_scales[0]);
        EXPECT_GT(write->scale, 0);
      }
    }
  }
}

TEST_F(DocumentWriteTest, TheIdIsChecked) {
  EXPECT_EQ(Refused([](auto* d) { d->clear_id(); }), "documents[3]: has neither string_id nor int_id");
  EXPECT_EQ(Refused([](auto* d) { d->set_string_id(""); }), "documents[3].string_id: has 0 bytes; must have 1 to 512");
  EXPECT_EQ(Refused([](auto* d) { d->set_string_id(std::string(513, 'x')); }),
            "documents[3].string_id: has 513 bytes; must have 1 to 512");
  EXPECT_EQ(Refused([](auto* d) { d->set_string_id("\xff"); }), "documents[3].string_id: is not UTF-8");
  EXPECT_EQ(Refused([](auto* d) { d->set_int_id(1); }),
            "documents[3].int_id: the ids of collection corpus are of type string");
  v1::Document longest = Valid();
  longest.set_string_id(std::string(512, 'x'));
  EXPECT_TRUE(Run(longest, *world_->f16).ok());
}

TEST_F(DocumentWriteTest, TokensOrTextAreWanted) {
  EXPECT_EQ(Refused([](auto* d) { d->clear_tokens(); }), "documents[3]: has neither tokens nor text");
  EXPECT_EQ(Refused([](auto* d) { d->set_text("words"); }),
            "documents[3]: has tokens and text; must have only one of them");
  const auto text = [](const char* words) {
    return [words](v1::Document* d) {
      d->clear_tokens();
      d->set_text(words);
    };
  };
  EXPECT_EQ(Refused(text(" \t\n")), "documents[3].text: is empty");
  EXPECT_EQ(Refused(text("\xff")), "documents[3].text: is not UTF-8");
}

TEST_F(DocumentWriteTest, TheMatrixIsChecked) {
  EXPECT_THAT(Refused([](auto* d) { d->mutable_tokens()->set_dtype(v1::DATA_TYPE_I8); }),
              HasSubstr("documents[3].tokens.dtype: is 4"));
  EXPECT_EQ(Refused([](auto* d) { d->mutable_tokens()->set_num_tokens(0); }),
            "documents[3].tokens.num_tokens: is 0; must be 1 to 65536 (limits.max_document_tokens)");
  EXPECT_EQ(Refused([](auto*) {}, {.max_document_tokens = 2}),
            "documents[3].tokens.num_tokens: is 3; must be 1 to 2 (limits.max_document_tokens)");
  EXPECT_EQ(Refused([](auto* d) { d->mutable_tokens()->set_dim(8); }),
            "documents[3].tokens.dim: is 8, but the collection's dimension is 16");
  EXPECT_THAT(Refused([](auto* d) { d->mutable_tokens()->mutable_data()->pop_back(); }),
              HasSubstr("documents[3].tokens.data: has 191 bytes"));
  EXPECT_THAT(
      Refused([](auto* d) { test::SetElement(17, std::numeric_limits<float>::quiet_NaN(), d->mutable_tokens()); }),
      HasSubstr("documents[3].tokens.data: holds nan at row 1, column 1"));
  EXPECT_THAT(Refused([](auto* d) { test::SetElement(0, 70000, d->mutable_tokens()); }),
              HasSubstr("which overflows the collection's storage type f16"));
}

TEST_F(DocumentWriteTest, ADocumentLargerThanTheEnginesStagingIsWritten) {
  EXPECT_TRUE(Run(Valid(), *world_->f16, {.max_staged_bytes = 1}).ok());
}

TEST_F(DocumentWriteTest, TokensThatI8KeepsTooLittleOfAreCountedOrRefused) {
  loss_ = {};
  ASSERT_TRUE(Run(Valid(), *world_->i8, {.refuse_lossy_tokens = true}).ok());
  EXPECT_EQ(loss_.num_tokens(), 0);
  v1::Document document = Valid();
  std::string* const data = document.mutable_tokens()->mutable_data();
  const float outlier = 1e6f;
  std::memcpy(data->data(), &outlier, sizeof(outlier));
  ASSERT_TRUE(Run(document, *world_->i8).ok());
  EXPECT_EQ(loss_.num_documents, 1);
  EXPECT_EQ(loss_.num_zeroed, 2);  // of three tokens
  EXPECT_TRUE(Run(document, *world_->f32, {.refuse_lossy_tokens = true}).ok());
  const absl::Status refused = Run(document, *world_->i8, {.refuse_lossy_tokens = true}).status();
  EXPECT_EQ(
      refused.message(),
      "documents[3].tokens: i8 keeps too little of 2 tokens of 1 document (2 became zeros), whose largest value is "
      "far above those of its other tokens (live.refuse_lossy_tokens)");
}

TEST_F(DocumentWriteTest, WhiteSpaceAroundAPayloadIsTakenOff) {
  v1::Document document = Valid();
  document.set_payload(" \r\n\t{\"a\": 1} \n");
  const auto write = Run(document, *world_->f16);
  ASSERT_TRUE(write.ok()) << write.status();
  EXPECT_EQ(write->payload, R"({"a": 1})");
  EXPECT_THAT(Refused([](auto* d) { d->set_payload(" \n"); }), HasSubstr("documents[3].payload: is not a JSON object"));
}

TEST_F(DocumentWriteTest, ThePayloadFitsTheFields) {
  v1::Document document = Valid();
  for (const char* payload : {"", " {} ", R"({"meta": {"year": 2026}, "year": "any"})", R"({"meta": null})"}) {
    document.set_payload(payload);
    EXPECT_TRUE(Run(document, *world_->fields).ok()) << payload;
  }
  document.set_payload(R"({"meta": {"year": "new"}})");
  const absl::Status status = Run(document, *world_->fields).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "documents[3].payload: of id \"new\": field \"year\": the value is \"new\"; must be an integer of 64 bits");
  EXPECT_TRUE(Run(document, *world_->f16).ok()) << "a collection without fields takes any payload";
}

TEST_F(DocumentWriteTest, ThePayloadIsAnObjectOfAMegabyteAtMost) {
  EXPECT_THAT(Refused([](auto* d) { d->set_payload("[1]"); }),
              HasSubstr("documents[3].payload: is not a JSON object in UTF-8: "));
  EXPECT_THAT(Refused([](auto* d) { d->set_payload("{\"a\":}"); }), HasSubstr("documents[3].payload: "));
  EXPECT_THAT(Refused([](auto* d) { d->set_payload("{\"a\":\"\xff\"}"); }), HasSubstr("documents[3].payload: "));
  EXPECT_THAT(Refused([](auto* d) { d->set_payload(R"({"lang": "en", "lang": "de"})"); }),
              HasSubstr("documents[3].payload: is not a JSON object in UTF-8: key \"lang\" appears twice"));
  const std::string deep = "{\"a\":" + std::string(64, '[') + std::string(64, ']') + "}";
  EXPECT_THAT(Refused([&](auto* d) { d->set_payload(deep); }), HasSubstr("nested deeper than 64"));
  const auto of_size = [](size_t size) { return "{\"a\":\"" + std::string(size - 8, 'x') + "\"}"; };
  EXPECT_EQ(Refused([&](auto* d) { d->set_payload(of_size(collection::kMaxPayloadBytes + 1)); }),
            "documents[3].payload: has 1048577 bytes; must have at most 1048576");
  v1::Document largest = Valid();
  largest.set_payload(of_size(collection::kMaxPayloadBytes));
  EXPECT_TRUE(Run(largest, *world_->f16).ok());
  v1::Document without = Valid();
  without.clear_payload();
  EXPECT_TRUE(Run(without, *world_->f16).ok());
}

TEST_F(DocumentWriteTest, ListsOfIdsAreChecked) {
  const DocumentRules strings = DocumentRulesOf(*world_->f16, {});
  v1::StringIds ids;
  EXPECT_EQ(CheckIds(ids, strings, 2).message(), "string_ids.ids: has 0 ids; must have 1 to 2");
  ids.add_ids("a");
  EXPECT_TRUE(CheckIds(ids, strings, 2).ok());
  ids.add_ids("");
  EXPECT_EQ(CheckIds(ids, strings, 2).message(), "string_ids.ids[1]: has 0 bytes; must have 1 to 512");
  ids.add_ids("c");
  EXPECT_EQ(CheckIds(ids, strings, 2).message(), "string_ids.ids: has 3 ids; must have 1 to 2");
  v1::IntIds ints;
  ints.add_ids(1);
  EXPECT_EQ(CheckIds(ints, strings, 2).message(), "int_ids: the ids of collection corpus are of type string");
  EXPECT_TRUE(CheckIds(ints, DocumentRulesOf(*world_->ints, {}), 2).ok());
}

}  // namespace
}  // namespace maxsim::service
