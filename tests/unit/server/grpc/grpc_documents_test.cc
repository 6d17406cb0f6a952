// Tests the unary calls of the Documents service over gRPC. A fake live collection gives the answers that each test
// chooses.
#include "server/grpc/grpc_documents.h"

#include <functional>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/monotonic_clock.h"
#include "client/status.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "server/service/call/write_expiry.h"
#include "server/service/documents.h"
#include "server/service/request/text_encoding.h"
#include "server/store/collection_store.h"
#include "tests/support/collection/corpus.h"
#include "tests/support/fake_backend.h"
#include "tests/unit/server/grpc/grpc_documents_fixture.h"

namespace maxsim::rpc {
namespace {

TEST_F(GrpcDocumentsTest, DocumentsAreWrittenDeletedAndRead) {
  grpc::ClientContext upsert_context;
  v1::UpsertResponse upserted;
  ASSERT_TRUE(stub_->Upsert(&upsert_context, Request({"a", "b"}), &upserted).ok());
  EXPECT_EQ(upserted.results_size(), 2);
  EXPECT_EQ(upserted.sequence(), 9u);
  grpc::ClientContext delete_context;
  v1::DeleteRequest deletes;
  deletes.set_collection("live");
  deletes.mutable_string_ids()->add_ids("doc-1");
  v1::DeleteResponse deleted;
  ASSERT_TRUE(stub_->Delete(&delete_context, deletes, &deleted).ok());
  EXPECT_EQ(deleted.results(0).sequence(), 10u);
  grpc::ClientContext get_context;
  v1::GetRequest get;
  get.set_collection("live");
  get.mutable_string_ids()->add_ids("doc-2");
  v1::GetResponse got;
  ASSERT_TRUE(stub_->Get(&get_context, get, &got).ok());
  ASSERT_EQ(got.documents_size(), 1);
  EXPECT_EQ(got.documents(0).payload(), R"({"n":2})");
}

TEST_F(GrpcDocumentsTest, AWriteThatArrivesAfterItsExpiryIsNotCarriedOut) {
  const absl::Time now = MonotonicNow();
  const auto status_with = [&](const std::string& expiry) {
    grpc::ClientContext context;
    context.AddMetadata(service::kWriteExpiryKey, expiry);
    v1::DeleteRequest deletes;
    deletes.set_collection("live");
    deletes.mutable_string_ids()->add_ids("doc-1");
    v1::DeleteResponse deleted;
    return stub_->Delete(&context, deletes, &deleted).error_code();
  };
  EXPECT_EQ(status_with(service::FormatWriteExpiry(service::ClockId(), now - absl::Milliseconds(1))),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(status_with(service::FormatWriteExpiry(service::ClockId() + 1, now + absl::Hours(1))),
            grpc::StatusCode::DEADLINE_EXCEEDED)
      << "the write was sent to the process that was here before";
  EXPECT_EQ(live_->sequence, 7u);
  EXPECT_EQ(status_with(service::FormatWriteExpiry(service::ClockId(), now + absl::Hours(1))), grpc::StatusCode::OK);
  EXPECT_EQ(live_->sequence, 8u);
  EXPECT_NEAR(absl::ToDoubleSeconds(live_->last_caller.deadline - now), 3600, 1);
}

TEST_F(GrpcDocumentsTest, AnErrorCarriesWhenToComeAgain) {
  live_->on_submit = [](std::vector<store::Write>, store::LiveDocuments::Done done) {
    absl::Status full = absl::ResourceExhaustedError("segments are full");
    client::SetRetryAfter(absl::Milliseconds(1500), full);
    done(full);
  };
  grpc::ClientContext context;
  v1::UpsertResponse response;
  const absl::Status status = client::FromGrpcStatus(stub_->Upsert(&context, Request({"a"}), &response));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(client::RetryAfter(status), absl::Milliseconds(1500));
  EXPECT_EQ(context.GetServerTrailingMetadata().find("grpc-retry-pushback-ms")->second, "1500");
}

// Sets up a token for searching and one for writing.
class GrpcDocumentsTokensTest : public GrpcDocumentsTest {
 protected:
  void SetUp() override {
    test::WriteFile(folder_ / "tokens", "searcher\n");
    test::WriteFile(folder_ / "write_tokens", "writer\n");
    Start({.search = folder_ / "tokens", .write = folder_ / "write_tokens", .admin = ""});
  }
};

TEST_F(GrpcDocumentsTokensTest, ATokenThatMaySearchReadsAndDoesNotWrite) {
  const auto code = [&](const std::function<grpc::Status(grpc::ClientContext*)>& call, const char* token) {
    grpc::ClientContext context;
    if (*token != '\0') context.AddMetadata("authorization", std::string("Bearer ") + token);
    return call(&context).error_code();
  };
  const auto upsert = [&](grpc::ClientContext* context) {
    v1::UpsertResponse response;
    return stub_->Upsert(context, Request({"a"}), &response);
  };
  const auto stream = [&](grpc::ClientContext* context) {
    v1::UpsertStreamResponse response;
    const auto writer = stub_->UpsertStream(context, &response);
    writer->Write(Request({"a"}));
    writer->WritesDone();
    return writer->Finish();
  };
  const auto get = [&](grpc::ClientContext* context) {
    v1::GetRequest request;
    request.set_collection("live");
    request.mutable_string_ids()->add_ids("doc-2");
    v1::GetResponse response;
    return stub_->Get(context, request, &response);
  };
  const auto count = [&](grpc::ClientContext* context) {
    v1::CountRequest request;
    request.set_collection("live");
    v1::CountResponse response;
    return stub_->Count(context, request, &response);
  };
  const auto scroll = [&](grpc::ClientContext* context) {
    v1::ScrollRequest request;
    request.set_collection("live");
    v1::ScrollResponse response;
    return stub_->Scroll(context, request, &response);
  };
  const auto facets = [&](grpc::ClientContext* context) {
    v1::FacetsRequest request;
    request.set_collection("live");
    v1::FacetsResponse response;
    return stub_->Facets(context, request, &response);
  };
  const std::vector<std::function<grpc::Status(grpc::ClientContext*)>> writes = {upsert, stream};
  for (const auto& write : writes) {
    EXPECT_EQ(code(write, ""), grpc::StatusCode::UNAUTHENTICATED);
    EXPECT_EQ(code(write, "searcher"), grpc::StatusCode::PERMISSION_DENIED);
    EXPECT_EQ(code(write, "writer"), grpc::StatusCode::OK);
  }
  EXPECT_EQ(code(get, ""), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code(get, "searcher"), grpc::StatusCode::OK);
  EXPECT_EQ(code(get, "writer"), grpc::StatusCode::OK);
  EXPECT_EQ(code(count, ""), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code(count, "searcher"), grpc::StatusCode::OK);
  EXPECT_EQ(code(scroll, ""), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code(scroll, "searcher"), grpc::StatusCode::OK);
  EXPECT_EQ(code(facets, ""), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(code(facets, "searcher"), grpc::StatusCode::INVALID_ARGUMENT) << "the collection has no fields";
}

// Gives tokens to two tenants. Each has one collection.
class GrpcDocumentsTenantsTest : public GrpcDocumentsTest {
 protected:
  void SetUp() override {
    test::WriteFile(folder_ / "tokens",
                    "acme {\"tenant\": \"acme\", \"collections\": [\"live\"]}\n"
                    "other {\"tenant\": \"other\", \"collections\": [\"other\"]}\n");
    Start({.search = folder_ / "tokens", .write = "", .admin = ""});
  }

  static void SetToken(const std::string& token, grpc::ClientContext& context) {
    context.AddMetadata("authorization", "Bearer " + token);
  }

  grpc::Status Get(const std::string& token) {
    grpc::ClientContext context;
    SetToken(token, context);
    v1::GetRequest request;
    request.set_collection("live");
    request.mutable_string_ids()->add_ids("doc-2");
    v1::GetResponse response;
    return stub_->Get(&context, request, &response);
  }

  grpc::Status Stream(const std::string& token) {
    grpc::ClientContext context;
    SetToken(token, context);
    v1::UpsertStreamResponse response;
    const auto writer = stub_->UpsertStream(&context, &response);
    writer->Write(Request({"a"}));
    writer->WritesDone();
    return writer->Finish();
  }
};

TEST_F(GrpcDocumentsTenantsTest, ATenantUsesItsOwnCollectionsOnly) {
  EXPECT_TRUE(Get("acme").ok());
  EXPECT_TRUE(Stream("acme").ok());
  EXPECT_EQ(live_->written.size(), 1u);
  EXPECT_EQ(Get("other").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(Stream("other").error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(live_->written.size(), 1u);
  EXPECT_EQ(Get("unknown").error_code(), grpc::StatusCode::UNAUTHENTICATED);
}

}  // namespace
}  // namespace maxsim::rpc
