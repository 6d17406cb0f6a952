#include "client/messages.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "client/options.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.pb.h"
#include "gtest/gtest.h"
#include "maxsim/v1/admin.pb.h"

namespace maxsim::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(MessagesTest, FloatsTravelAsTheyLieInMemory) {
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const v1::TokenMatrix tokens = MakeTokens(values, 3);
  EXPECT_EQ(tokens.dtype(), v1::DATA_TYPE_F32);
  EXPECT_EQ(tokens.num_tokens(), 2);
  EXPECT_EQ(tokens.dim(), 3);
  ASSERT_EQ(tokens.data().size(), values.size() * sizeof(float));
  EXPECT_EQ(std::memcmp(tokens.data().data(), values.data(), tokens.data().size()), 0);
}

TEST(MessagesTest, HalvesKeepTheirType) {
  const std::vector<uint16_t> values = {0x3c00, 0xbc00, 0x0001, 0x7bff};
  for (const v1::DataType type : {v1::DATA_TYPE_F16, v1::DATA_TYPE_BF16}) {
    const v1::TokenMatrix tokens = MakeTokens(type, values, 4);
    EXPECT_EQ(tokens.dtype(), type);
    EXPECT_EQ(tokens.num_tokens(), 1);
    EXPECT_EQ(tokens.data(), std::string("\x00\x3c\x00\xbc\x01\x00\xff\x7b", 8));
  }
}

TEST(MessagesTest, ContradictorySizesReadNothingBeyondTheSpan) {
  const std::vector<uint16_t> values(8);
  // Four rows of two F32 values would need 32 bytes, but the span has only 16. Nothing may be read beyond it.
  EXPECT_TRUE(MakeTokens(v1::DATA_TYPE_F32, values, 4).data().empty());
  EXPECT_EQ(MakeTokens(v1::DATA_TYPE_F16, values, 0).num_tokens(), 0);
  const v1::TokenMatrix ragged = MakeTokens(v1::DATA_TYPE_F16, values, 3);  // 8 values are not rows of 3
  EXPECT_EQ(ragged.data().size(), 16);
  EXPECT_NE(ragged.data().size(), ragged.num_tokens() * ragged.dim() * 2);  // the server refuses it
}

TEST(MessagesTest, AStringOfBytesIsMovedNotCopied) {
  std::string bytes(4096, 'x');
  const auto memory = reinterpret_cast<uintptr_t>(bytes.data());  // compared, and never read
  v1::Query query = MakeQuery(MakeTokens(v1::DATA_TYPE_F16, 16, 128, std::move(bytes)));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(query.tokens().data().data()), memory);
}

TEST(MessagesTest, ADocumentHasAnIdOfItsKindAndTokensOrAText) {
  const v1::Document vectors = MakeDocument("a", MakeTokens(std::vector<float>(16), 8));
  EXPECT_EQ(vectors.string_id(), "a");
  EXPECT_EQ(vectors.tokens().num_tokens(), 2);
  EXPECT_EQ(MakeDocument(-7, MakeTokens(std::vector<float>(16), 8)).int_id(), -7);
  const v1::Document text = MakeTextDocument(0, "how do birds fly");
  EXPECT_EQ(text.id_case(), v1::Document::kIntId);
  EXPECT_EQ(text.text(), "how do birds fly");
  EXPECT_FALSE(text.has_tokens());
  EXPECT_EQ(MakeTextDocument("b", "").string_id(), "b");
}

TEST(MessagesTest, AQueryHoldsItsWeightsAndNoCandidates) {
  const v1::Query query = MakeQuery(MakeTokens(std::vector<float>(16), 8), std::vector<float>{0.5f, 2.0f});
  EXPECT_THAT(query.weights(), ElementsAre(0.5f, 2.0f));
  EXPECT_FALSE(query.has_candidates());
  EXPECT_EQ(MakeQuery({}).weights_size(), 0);
}

TEST(MessagesTest, AQueryOfTextHoldsTheTextAlone) {
  const v1::Query query = MakeTextQuery("how do birds fly?");
  EXPECT_EQ(query.text(), "how do birds fly?");
  EXPECT_FALSE(query.has_tokens());
  EXPECT_FALSE(query.has_candidates());
  EXPECT_TRUE(MakeTextQuery("").has_text()) << "the server says what is wrong with it";
}

TEST(MessagesTest, CandidatesKeepOrderAndRepeats) {
  const std::vector<std::string> strings = {"b", "a", "b", ""};
  EXPECT_THAT(StringCandidates(strings).string_ids().ids(), ElementsAre("b", "a", "b", ""));
  const std::vector<std::string_view> views = {"x", std::string_view("y\0z", 3)};
  EXPECT_THAT(StringCandidates(views).string_ids().ids(), ElementsAre("x", std::string("y\0z", 3)));
  const std::vector<int64_t> ints = {3, INT64_MIN, 3};
  EXPECT_THAT(IntCandidates(ints).int_ids().ids(), ElementsAre(3, INT64_MIN, 3));
  EXPECT_TRUE(WholeCollection().has_whole_collection());
}

// protoc-gen-go needs a Go package in every file, and the files of one proto package must have the same Go package.
TEST(ProtoTest, EveryFileNamesItsGoPackage) {
  for (const auto* file : {v1::RerankRequest::descriptor()->file(), v1::LoadCollectionRequest::descriptor()->file()}) {
    EXPECT_EQ(file->options().go_package(), "maxsim/v1;maxsimv1") << file->name();
  }
}

TEST(ClientOptionsTest, NamesTheOptionThatIsWrong) {
  const auto message = [](auto change) {
    ClientOptions options;
    change(options);
    return std::string(ValidateClientOptions(options).message());
  };
  EXPECT_TRUE(ValidateClientOptions({}).ok());
  EXPECT_THAT(message([](ClientOptions& o) { o.target = ""; }), HasSubstr("target"));
  EXPECT_THAT(message([](ClientOptions& o) { o.timeout = absl::ZeroDuration(); }), HasSubstr("timeout"));
  EXPECT_THAT(message([](ClientOptions& o) { o.max_message_bytes = int64_t{1} << 31; }),
              HasSubstr("max_message_bytes"));
  EXPECT_THAT(message([](ClientOptions& o) { o.num_channels = 0; }), HasSubstr("num_channels is 0"));
  EXPECT_THAT(message([](ClientOptions& o) { o.keepalive_time = -absl::Seconds(1); }), HasSubstr("keepalive_time"));
  EXPECT_THAT(message([](ClientOptions& o) { o.bearer_token = "two words"; }), HasSubstr("bearer_token"));
  EXPECT_THAT(message([](ClientOptions& o) { o.bearer_token = "line\n"; }), HasSubstr("bearer_token"));
  EXPECT_THAT(message([](ClientOptions& o) { o.client_id = "two words"; }), HasSubstr("client_id holds"));
  for (const char* key : {"", "X-Client-Id", "a b", "ids-bin", "grpc-timeout"}) {
    EXPECT_THAT(message([key](ClientOptions& o) { o.client_key = key; }),
                HasSubstr(std::string("client_key is \"") + key + "\"; must be a metadata key"));
  }
  EXPECT_THAT(message([](ClientOptions& o) { o.load_balancing = "ring_hash"; }),
              HasSubstr("load_balancing is \"ring_hash\"; must be \"round_robin\" or \"pick_first\""));
  EXPECT_EQ(message([](ClientOptions& o) { o.load_balancing = "pick_first"; }), "");
  EXPECT_THAT(message([](ClientOptions& o) { o.retry.jitter = 2; }), HasSubstr("jitter"));
}

TEST(ClientOptionsTest, TlsFilesAreReadUpFront) {
  TlsOptions tls;
  tls.ca_file = "/no/such/ca.pem";
  EXPECT_TRUE(MakeCredentials(tls).ok()) << "not enabled: not read";
  tls.enabled = true;
  const auto message = [&] { return std::string(MakeCredentials(tls).status().message()); };
  EXPECT_EQ(message(), "tls.ca_file: cannot read '/no/such/ca.pem': No such file or directory");
  tls.ca_file = "/";
  EXPECT_EQ(message(), "tls.ca_file: cannot read '/': Is a directory");
  tls.ca_file = "/dev/null";
  EXPECT_EQ(message(), "tls.ca_file: '/dev/null' is empty") << "not the system's certificates";
  tls.ca_file.clear();
  tls.cert_file = "/no/such/cert.pem";
  EXPECT_EQ(MakeCredentials(tls).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace maxsim::client
