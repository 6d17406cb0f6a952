// Tests a server that runs out of memory during a request. Only this request may fail, and the server must continue.
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/service/server_fixture.h"

namespace {

// Allocations of at least this many bytes fail in every thread. Allocations by operator new[] never fail, because gRPC
// makes its slices with it.
std::atomic<size_t> fails_from{SIZE_MAX};

}  // namespace

void* operator new(size_t size) {
  void* const memory = size >= fails_from ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new[](size_t size) {
  void* const memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

namespace maxsim::test {
namespace {

using testing::HasSubstr;

class Scarce {
 public:
  explicit Scarce(size_t bytes) { fails_from = bytes; }
  ~Scarce() { fails_from = SIZE_MAX; }
};

class MemoryServiceTest : public testing::Test {
 protected:
  static v1::RerankRequest Request(size_t num_unknown_ids) {
    v1::RerankRequest request = MakeRequest("corpus", MakeQuery(TestSeed(), ScalarType::kF16, kDim, 4), {"doc-1"}, 5);
    for (size_t i = 0; i < num_unknown_ids; ++i) {
      request.mutable_candidates()->mutable_string_ids()->add_ids("unknown-" + std::to_string(i));
    }
    return request;
  }

  // Sends the request as a unary call and in a stream, while allocations of `fails_from_bytes` or more fail. Both calls
  // must end with the code `expected`.
  void ExpectBoth(const v1::RerankRequest& request, grpc::StatusCode expected, size_t fails_from_bytes) {
    v1::RerankResponse response;
    grpc::ClientContext context;
    auto stream = server_.stub().RerankStream(&context);
    grpc::Status status;
    v1::RerankStreamResponse streamed;
    {
      const Scarce scarce(fails_from_bytes);
      status = server_.Rerank(request, &response);
      ASSERT_TRUE(stream->Write(request));
      ASSERT_TRUE(stream->Read(&streamed));
    }
    EXPECT_EQ(status.error_code(), expected) << status.error_message();
    EXPECT_EQ(streamed.code(), expected) << streamed.message();
    stream->WritesDone();
    EXPECT_TRUE(stream->Finish().ok());
  }

  RunningServer server_;
};

TEST_F(MemoryServiceTest, ARequestThatNoMemoryIsLeftForFailsAloneAndIsCounted) {
  ExpectBoth(Request(10), grpc::OK, SIZE_MAX);
  // The list of ordinals of 100,000 candidates is 800 kB.
  ExpectBoth(Request(100'000), grpc::RESOURCE_EXHAUSTED, 600'000);
  EXPECT_THAT(server_.server().metrics().Expose(), HasSubstr("maxsim_rejections_total{reason=\"memory\"} 2"));
  ExpectBoth(Request(100'000), grpc::OK, SIZE_MAX);
}

// The list of unknown ids cannot grow. If that left a container in a broken state, its destructor would end the
// process.
TEST_F(MemoryServiceTest, AListWhoseUnknownIdsOutgrowTheMemoryFailsAlone) {
  for (const size_t bytes : {900'000, 1'500'000, 3'000'000}) {
    ExpectBoth(Request(100'000), grpc::RESOURCE_EXHAUSTED, bytes);
  }
  ExpectBoth(Request(100'000), grpc::OK, SIZE_MAX);
}

}  // namespace
}  // namespace maxsim::test
