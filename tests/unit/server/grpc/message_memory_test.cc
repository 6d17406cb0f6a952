#include "server/grpc/messages/message_memory.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "grpcpp/support/slice.h"
#include "maxsim/v1/rerank.pb.h"
#include "server/grpc/messages/message_buffer.h"

namespace maxsim::rpc {
namespace {

using testing::HasSubstr;

constexpr size_t kMi = size_t{1} << 20;

constexpr int kUnknownField = 2000;

// Repeats `unit` until the result has `size` bytes or more.
std::string Repeat(const std::string& unit, size_t size) {
  std::string bytes;
  bytes.reserve(size + unit.size());
  while (bytes.size() < size) bytes += unit;
  return bytes;
}

// Returns the bytes in slices, as gRPC reads them. Some fields reach from one slice into the next.
grpc::ByteBuffer Sliced(const std::string& bytes) {
  constexpr size_t kSliceBytes = 8191;
  std::vector<grpc::Slice> slices;
  for (size_t begin = 0; begin < bytes.size(); begin += kSliceBytes) {
    slices.emplace_back(bytes.data() + begin, std::min(kSliceBytes, bytes.size() - begin));
  }
  return {slices.data(), slices.size()};
}

absl::Status Check(const std::string& bytes) {
  return CheckParsedMemory(Sliced(bytes), v1::RerankRequest::descriptor());
}

// Returns field `number` with `content`, as protobuf writes it.
std::string Field(int number, const std::string& content) {
  std::string bytes;
  for (size_t value : {static_cast<size_t>(number) << 3 | 2, content.size()}) {
    for (; value >= 128; value >>= 7) bytes += static_cast<char>((value & 127) | 128);
    bytes += static_cast<char>(value);
  }
  return bytes + content;
}

std::string Ids(const std::string& ids) { return Field(4, Field(1, ids)); }

TEST(MessageMemoryTest, MessagesThatWouldTakeManyTimesTheirBytesAreRefusedByTheFieldThatDoes) {
  const auto field_of = [](const std::string& bytes) {
    const absl::Status status = Check(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message().substr(0, status.message().find(':')));
  };
  EXPECT_EQ(field_of(Repeat(Field(3, ""), 7 * kMi / 2)), "maxsim.v1.RerankRequest.queries");
  EXPECT_EQ(field_of(Ids(Repeat(Field(1, ""), 7 * kMi / 2))), "maxsim.v1.StringIds.ids");
  EXPECT_EQ(field_of(Field(4, Field(4, Repeat(Field(1, ""), 7 * kMi / 2)))), "maxsim.v1.InlineDocuments.documents");
  EXPECT_EQ(field_of(Repeat(Field(3, Field(3, Field(1, Field(1, "")))), 8 * kMi)).substr(0, 10), "maxsim.v1.");
  const std::string unknown = "a field that this server does not know";
  EXPECT_EQ(field_of(Repeat(Field(kUnknownField, ""), 8 * kMi)), unknown);
  EXPECT_EQ(field_of(Repeat("\x7b\x7c", 8 * kMi)), unknown) << "groups";
  EXPECT_EQ(field_of(Repeat(std::string("\x78\0", 2), 8 * kMi)), unknown) << "numbers";
}

TEST(MessageMemoryTest, WhatTheLimitsAllowIsAccepted) {
  EXPECT_TRUE(Check(Ids(Repeat(Field(1, "x"), 3 * kMi))).ok()) << "a million ids of one letter";
  EXPECT_TRUE(Check(Ids(Repeat(Field(1, "12345678"), 10 * kMi))).ok()) << "any number of ids of eight letters";
  EXPECT_TRUE(Check(Field(3, Field(1, Field(4, std::string(60 * kMi, '\0'))))).ok()) << "a matrix";
  EXPECT_TRUE(Check(Field(3, Field(2, std::string(60 * kMi, '\0')))).ok()) << "weights";
  EXPECT_TRUE(Check(Field(4, Field(2, Field(1, std::string(60 * kMi, '\0'))))).ok()) << "ids that are numbers";
  EXPECT_TRUE(Check(Repeat(Field(3, ""), kMi)).ok()) << "small: limits.max_queries_per_request says it better";
}

TEST(MessageMemoryTest, TheEstimateIsNeverLessThanWhatAMessageTakesAndNotManyTimesMore) {
  for (const std::string& unit :
       {Field(3, ""), Field(3, Field(1, "")), Ids(""), Ids(Field(1, "")), Ids(Field(1, std::string(16, 'x'))),
        Field(4, Field(4, Field(1, ""))), Field(kUnknownField, ""), Field(kUnknownField, "unknown"),
        Field(15, Field(7, "")), std::string("\x7b\x7c"), std::string("\x7b\x7b\x7c\x7c"), std::string("\x78\0", 2),
        std::string("\x2d\0\0\0\0", 5), Field(3, Field(3, Field(2, Field(1, "12345678")))),
        Field(3, Field(2, std::string(4, '\0')))}) {
    const std::string bytes = Repeat(unit, 20'000);
    v1::RerankRequest request;
    ASSERT_TRUE(request.ParseFromString(bytes));
    const uint64_t estimate = EstimateParsedBytes(Sliced(bytes), v1::RerankRequest::descriptor());
    const uint64_t taken = request.SpaceUsedLong() - sizeof(request);
    EXPECT_GE(estimate, taken) << "of " << unit.size() << " bytes each, the first " << static_cast<int>(unit[0]);
    if (unit[0] != '\x22' && unit[0] != '\x7a') {  // later candidates and filters replace earlier ones
      EXPECT_LE(estimate, 4 * taken + 1000) << unit.size() << " " << static_cast<int>(unit[0]);
    }
  }
}

TEST(MessageMemoryTest, BytesThatAreNoMessageAreRefused) {
  const std::string padding = Field(2, std::string(2 * kMi, 'x'));
  EXPECT_TRUE(Check(padding).ok());
  for (const std::string& end :
       {std::string("\x1a\x05"), std::string(1, '\0'), std::string("\x7b"), std::string("\x7c"), std::string("\x7e"),
        std::string("\x1a\x02\x0a\x05"), std::string(300, '\x7b'), std::string("\x7b\x74"),
        std::string("\x78") + std::string(11, '\xff')}) {
    v1::RerankRequest request;
    const absl::Status status = ParseMessage(Sliced(padding + end), request);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(status.message(), HasSubstr("is not a maxsim.v1.RerankRequest: it is malformed"));
  }
}

TEST(MessageMemoryTest, ParsingRefusesBeforeItAllocates) {
  v1::RerankRequest request;
  const absl::Status status = ParseMessage(Sliced(Repeat(Field(3, ""), 7 * kMi / 2)), request);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), HasSubstr("maxsim.v1.RerankRequest.queries: is repeated so often that"));
  EXPECT_EQ(request.queries_size(), 0);
}

}  // namespace
}  // namespace maxsim::rpc
