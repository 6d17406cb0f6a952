// Tests how maxsimctl reaches servers, and its commands for collections, with a fake server whose answers each test
// chooses.
#include <cstdint>
#include <sstream>

#include "client/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/service/tools/ctl_fixture.h"
#include "tests/support/fake_server.h"
#include "tools/maxsimctl/context/context.h"
#include "tools/maxsimctl/maxsimctl.h"

namespace maxsim::ctl {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST_F(CtlTest, InfoShowsLostDevicesAndWhereCollectionsLie) {
  for (const uint32_t number : {0u, 1u}) {
    v1::DeviceInfo* device = server_.info.add_devices();
    device->set_number(number);
    if (number == 1) device->set_lost("device 1: Xid 79");
    v1::TierInfo* tier = server_.info.mutable_collections(0)->add_tiers();
    tier->set_tier(number == 0 ? "gpu" : "host");
    tier->set_device(number);
    tier->set_num_shards(number + 3);
  }
  server_.info.mutable_collections(0)->set_unavailable_documents(7);
  const Outcome run = Run({"info"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.out, HasSubstr("LOST"));
  EXPECT_THAT(run.out, HasSubstr("lost: device 1: Xid 79\n"));
  EXPECT_THAT(run.out, ::testing::ContainsRegex("passages +host +1 +4 "));
  EXPECT_THAT(run.err, HasSubstr("passages: 7 documents cannot be scored: their device is lost\n"));
}

TEST_F(CtlTest, TheFirstTokenOfTheServersOwnFileIsSent) {
  WriteFile("tokens", "# of the team\n\n  first \r\nsecond\n");
  ASSERT_EQ(Run({"info", "--token-file", Path("tokens")}).code, 0);
  EXPECT_EQ(server_.metadata("authorization"), "Bearer first");
}

TEST_F(CtlTest, TheClientsNameIsSentUnderTheServersKey) {
  ASSERT_EQ(Run({"info", "--client-id", "nightly"}).code, 0);
  EXPECT_EQ(server_.metadata("x-client-id"), "nightly");
  ASSERT_EQ(Run({"reload", "passages", "--client-id", "nightly", "--client-key", "x-tenant"}).code, 0);
  EXPECT_EQ(server_.metadata("x-tenant"), "nightly");
  EXPECT_EQ(server_.metadata("x-client-id"), "");
  const Outcome run = Run({"info", "--client-id", "two words"});
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(run.err, HasSubstr("client_id holds a space"));
}

TEST_F(CtlTest, OfSeveralServersOneAnswersTheWholeCommand) {
  test::FakeServer other;
  other.info = server_.info;
  for (int i = 0; i < 5; ++i) {
    std::ostringstream out, err;
    const std::string both = "ipv4:" + server_.target() + "," + other.target();
    ASSERT_EQ(RunMaxsimctl({"--server", both, "rerank", "--query", Path("q.npy"), "--all"}, {.out = out, .err = err}),
              0)
        << err.str();
  }
  EXPECT_EQ(server_.num_reranks, 5);
  EXPECT_EQ(other.num_reranks, 0);
}

TEST_F(CtlTest, ACollectionThatFailedIsNotCalledHeld) {
  v1::CollectionInfo* failed = server_.info.add_collections();
  failed->set_name("damaged");
  failed->set_state(v1::COLLECTION_STATE_FAILED);
  failed->set_error("DATA_LOSS: shard-0: checksum");
  EXPECT_EQ(Run({"rerank", "--query", Path("q.npy"), "--all"}).code, 0) << "one is ready: no choice is needed";
  EXPECT_EQ(request_.collection(), "passages");
  EXPECT_THAT(Run({"rerank", "--query", Path("q.npy"), "--all", "--collection", "x"}).err,
              HasSubstr("no collection 'x'; the server holds passages, damaged (failed)"));
  const Outcome run = Run({"collections"});
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.out, ContainsRegex("damaged +failed"));
  EXPECT_EQ(run.err, "damaged: DATA_LOSS: shard-0: checksum\n");
  EXPECT_EQ(json::parse(Run({"collections", "--json"}).out)[1]["state"], "failed");
}

TEST_F(CtlTest, InfoAndCollectionsAsTableAndJson) {
  Outcome run = Run({"info"});
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, AllOf(HasSubstr("maxsimd 1.2.3"), HasSubstr("174,339"), HasSubstr("max_top_k")));
  EXPECT_EQ(json::parse(Run({"--json", "info"}).out)["collections"][0]["num_documents"], 1398);
  run = Run({"collections"});
  EXPECT_THAT(run.out, AllOf(HasSubstr("passages"), HasSubstr("ready"), HasSubstr("f16"), HasSubstr("1,398")));
  EXPECT_EQ(json::parse(Run({"collections", "--json"}).out)[0]["storage"], "f16");
  server_.info.clear_collections();
  EXPECT_EQ(Run({"collections"}).out, "no collections\n");
}

TEST_F(CtlTest, LoadReloadUnload) {
  EXPECT_THAT(Run({"load", "new", "/data/new", "--residency", "disk"}).out, StartsWith("loaded new: "));
  EXPECT_EQ(json::parse(Run({"load", "new", "/data/new", "--json"}).out)["path"], "/data/new");
  EXPECT_THAT(Run({"reload", "new"}).out, StartsWith("reloaded new: "));
  EXPECT_EQ(Run({"unload", "new"}).out, "unloaded new\n");
}

TEST_F(CtlTest, AReloadOfAGenerationAndARollBack) {
  uint64_t asked = 99;
  server_.on_reload = [&](const v1::ReloadCollectionRequest& request, v1::ReloadCollectionResponse& response) {
    asked = request.generation();
    response.add_not_reached("10.0.0.7:7070 of group g1");
    return grpc::Status::OK;
  };
  EXPECT_EQ(Run({"reload", "passages"}).code, 0);
  EXPECT_EQ(asked, 0u);
  const Outcome run = Run({"reload", "passages", "--generation", "7"});
  EXPECT_EQ(asked, 7u);
  EXPECT_THAT(run.out, HasSubstr("\nnot reached: 10.0.0.7:7070 of group g1; it gets no requests until"));
  EXPECT_EQ(json::parse(Run({"reload", "passages", "--json"}).out)["not_reached"][0], "10.0.0.7:7070 of group g1");

  Outcome refused = Run({"reload", "passages", "--roll-back"});
  EXPECT_EQ(refused.code, kExitFailed);
  EXPECT_THAT(refused.err, HasSubstr("--roll-back: collection passages serves generation"));
  EXPECT_THAT(refused.err, HasSubstr("and its folder keeps none before that"));
  server_.info.mutable_collections(0)->set_previous_generation(5);
  EXPECT_EQ(Run({"reload", "passages", "--roll-back"}).code, 0);
  EXPECT_EQ(asked, 5u);
  EXPECT_NE(Run({"reload", "passages", "--roll-back", "--generation", "7"}).code, 0);
  EXPECT_NE(Run({"reload", "passages", "--generation", "0"}).code, 0);
  EXPECT_EQ(asked, 5u);
}

TEST_F(CtlTest, ALoadFromAnotherFolderNamesTheKeyToSet) {
  server_.admin_status =
      client::ToGrpcStatus(client::FieldError(absl::StatusCode::kPermissionDenied, client::kReasonOutsideAllowedRoots,
                                              "path", "/data/new is not under store.allowed_roots (/srv)"));
  const Outcome run = Run({"load", "new", "/data/new"});
  EXPECT_EQ(run.code, kExitFailed);
  EXPECT_THAT(run.err, HasSubstr("is not under store.allowed_roots (/srv); add a folder that holds it to "
                                 "store.allowed_roots in the configuration of the server"));
  server_.admin_status = grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "the bearer token may search");
  EXPECT_THAT(Run({"load", "new", "/data/new"}).err, Not(HasSubstr("store.allowed_roots")));
}

}  // namespace
}  // namespace maxsim::ctl
