// Tests which single values and which combinations of values are refused, and which cause warnings.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/server/config/config_fixture.h"

namespace maxsim::config {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(ConfigTest, AValueOutOfRangeNamesKeyValueAndLimit) {
  EXPECT_EQ(YamlError("engine:\n  lanes: 99\n"), "conf.yaml:2: engine.lanes: \"99\" is more than the limit 16");
  EXPECT_EQ(YamlError("engine:\n  lanes: 0\n"), "conf.yaml:2: engine.lanes: \"0\" is less than the limit 1");
  EXPECT_THAT(ErrorOf(LoadWith({"--http.threads", "many"})),
              HasSubstr("--http.threads: \"many\" is not a whole number"));
  EXPECT_THAT(ErrorOf(LoadWith({}, {{"MAXSIM_LOG_FORMAT", "xml"}})),
              "MAXSIM_LOG_FORMAT: log.format: \"xml\" is not one of text, json");
  EXPECT_THAT(ErrorOf(LoadWith({"--server.shutdown_delay", "2h"})), HasSubstr("more than the limit 1h"));
}

TEST(ConfigTest, TheClientKeyIsAMetadataKeyThatIsText) {
  const auto loaded = LoadWith({"--batching.client_key", "x-tenant"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.client_key, "x-tenant");
  EXPECT_EQ(LoadWith({"--batching.client_key="})->config.client_key, "");
  for (const char* wrong : {"X-Client-Id", "a b", "ids-bin", "grpc-timeout", "x:y"}) {
    EXPECT_THAT(ErrorOf(LoadWith({"--batching.client_key", wrong})),
                HasSubstr("\"" + std::string(wrong) + "\" is not a metadata key"));
  }
}

TEST(ConfigTest, TheTimeInTheQueueMayBeUnbounded) {
  EXPECT_EQ(LoadWith({})->config.batching.max_queue_time, absl::Seconds(1));
  EXPECT_EQ(LoadWith({"--batching.max_queue_time", "0"})->config.batching.max_queue_time, absl::ZeroDuration());
  EXPECT_EQ(LoadWith({"--batching.max_queue_time=20ms"})->config.batching.max_queue_time, absl::Milliseconds(20));
}

TEST(ConfigTest, KeysThatContradictOneAnotherAreRefused) {
  EXPECT_THAT(ErrorOf(LoadWith({"--limits.max_top_k=5"})),
              HasSubstr("limits.default_top_k is 10, more than limits.max_top_k"));
  EXPECT_THAT(ErrorOf(LoadWith({"--tls.cert_file=c.pem"})), HasSubstr("tls.cert_file and tls.key_file"));
  EXPECT_THAT(ErrorOf(LoadWith({"--tls.client_ca_file=c.pem"})), HasSubstr("tls.client_ca_file needs"));
  EXPECT_THAT(ErrorOf(LoadWith({"--http.tls=all"})), HasSubstr("http.tls needs tls.cert_file and tls.key_file"));
  EXPECT_THAT(ErrorOf(LoadWith({"--engine.max_query_tokens=8"})), HasSubstr("limits.max_query_tokens is"));
  EXPECT_EQ(ErrorOf(LoadWith({"--grpc.address=0.0.0.0:7070", "--http.address=127.0.0.1:7070"})),
            "http.address is 127.0.0.1:7070 and grpc.address is 0.0.0.0:7070; they must have different ports");
  EXPECT_TRUE(LoadWith({"--grpc.address=127.0.0.2:7070", "--http.address=127.0.0.1:7070"}).ok());
  EXPECT_TRUE(LoadWith({"--grpc.address=127.0.0.1:0", "--http.address=127.0.0.1:0"}).ok());
  EXPECT_TRUE(LoadWith({"--grpc.unix_socket=/" + std::string(106, 's')}).ok());
  EXPECT_EQ(ErrorOf(LoadWith({"--grpc.unix_socket=/" + std::string(107, 's')})),
            "grpc.unix_socket: /" + std::string(107, 's') + " has 108 bytes, more than the limit 107");
  EXPECT_THAT(ErrorOf(LoadWith({"--grpc.unix_socket=/run/%41"})), HasSubstr("grpc.unix_socket: /run/%41 holds a %"));
  EXPECT_THAT(ErrorOf(LoadWith({"--backend.cpu_isa=mmx"})),
              HasSubstr("backend.cpu_isa: \"mmx\" is not one of amx, avx512bf16,"));
  EXPECT_TRUE(LoadWith({"--backend.cpu_isa=avx2"}).ok());
  for (const std::string& isa : CpuIsas()) EXPECT_TRUE(LoadWith({"--backend.cpu_isa=" + isa}).ok()) << isa;
}

TEST(ConfigTest, ARouterDoesNotListItself) {
  const auto load = [](const std::string& address, const std::string& target) {
    return LoadWith({"--grpc.address=" + address, "--cluster.groups=g0=a:1 " + target});
  };
  EXPECT_EQ(ErrorOf(load("10.0.0.1:7070", "10.0.0.1:7070")),
            "cluster.groups: target 10.0.0.1:7070 of group g0 is this router itself (grpc.address is 10.0.0.1:7070)");
  EXPECT_THAT(ErrorOf(load("127.0.0.1:7070", "localhost:7070")), HasSubstr("is this router itself"));
  EXPECT_THAT(ErrorOf(load("0.0.0.0:7070", "127.0.0.1:7070")), HasSubstr("is this router itself"));
  EXPECT_THAT(ErrorOf(load("[::]:7070", "[::1]:7070")), HasSubstr("is this router itself"));
  EXPECT_TRUE(load("0.0.0.0:7070", "127.0.0.1:7071").ok());
  EXPECT_TRUE(load("0.0.0.0:7070", "10.0.0.1:7070").ok());
  EXPECT_TRUE(load("127.0.0.1:7070", "127.0.0.2:7070").ok());
  EXPECT_TRUE(load("127.0.0.1:0", "127.0.0.1:7070").ok());
}

TEST(ConfigTest, TheBoundsOfAReplicasLagAreNumbers) {
  const auto loaded = LoadWith({"--cluster.max_lag_writes=5000", "--cluster.max_lag_seconds=30"});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.cluster.max_lag_writes, 5000);
  EXPECT_EQ(loaded->config.cluster.max_lag_seconds, 30);
  EXPECT_EQ(LoadWith({})->config.cluster.max_lag_writes, 0);
  EXPECT_EQ(LoadWith({})->config.cluster.max_lag_seconds, 10);
  EXPECT_TRUE(LoadWith({"--cluster.max_lag_seconds=3600"}).ok());
  EXPECT_THAT(ErrorOf(LoadWith({"--cluster.max_lag_seconds=3601"})), HasSubstr("cluster.max_lag_seconds: \"3601\""));
  EXPECT_THAT(ErrorOf(LoadWith({"--cluster.max_lag_seconds=-1"})), HasSubstr("cluster.max_lag_seconds"));
  EXPECT_THAT(ErrorOf(LoadWith({"--cluster.max_lag_writes=few"})), HasSubstr("cluster.max_lag_writes"));
}

TEST(ConfigTest, AZoneIsANameOrNothing) {
  EXPECT_EQ(LoadWith({})->config.cluster.zone, "");
  EXPECT_EQ(LoadWith({"--cluster.zone=eu-west-1a"})->config.cluster.zone, "eu-west-1a");
  EXPECT_EQ(LoadWith({"--cluster.zone=" + std::string(64, 'z')})->config.cluster.zone, std::string(64, 'z'));
  EXPECT_EQ(LoadWith({}, {{"MAXSIM_CLUSTER_ZONE", ""}})->config.cluster.zone, "");
  EXPECT_THAT(ErrorOf(LoadWith({"--cluster.zone=eu west"})),
              HasSubstr("cluster.zone: \"eu west\" is not the name of a zone: 1 to 64 of A-Z a-z 0-9 . _ -"));
  EXPECT_THAT(ErrorOf(LoadWith({"--cluster.zone=" + std::string(65, 'z')})), HasSubstr("cluster.zone: "));
}

TEST(ConfigTest, AGroupOfAServerIsANameOrNothing) {
  EXPECT_EQ(LoadWith({})->config.live.group, "");
  EXPECT_EQ(LoadWith({"--cluster.group=g0"})->config.live.group, "g0");
  EXPECT_TRUE(LoadWith({"--cluster.group=" + std::string(64, 'g')}).ok());
  EXPECT_THAT(ErrorOf(LoadWith({"--cluster.group=g 0"})),
              HasSubstr("cluster.group: \"g 0\" is not the name of a group: 1 to 64 of A-Z a-z 0-9 . _ -"));
  EXPECT_THAT(ErrorOf(LoadWith({"--cluster.group=" + std::string(65, 'g')})), HasSubstr("cluster.group: "));
}

TEST(ConfigTest, CollectionsOfTheClusterNeedNatsAndAFolder) {
  const std::string flag = "--live.create_from_cluster=true";
  EXPECT_FALSE(LoadWith({})->config.live.create_from_cluster);
  EXPECT_THAT(ErrorOf(LoadWith({flag})), HasSubstr("live.create_from_cluster is true, which needs live.log nats"));
  const std::vector<std::string> with_nats = {flag, "--live.log=nats", "--nats.url=nats://a:4222"};
  EXPECT_THAT(ErrorOf(LoadWith(with_nats)), HasSubstr("store.allowed_roots names no folder"));
  std::vector<std::string> with_folder = with_nats;
  with_folder.push_back("--store.allowed_roots=/srv/live");
  const auto loaded = LoadWith(with_folder);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_TRUE(loaded->config.live.create_from_cluster);
  EXPECT_THAT(loaded->config.cluster.peers, IsEmpty());
  std::vector<std::string> with_peers = with_folder;
  with_peers.push_back("--cluster.peers=a:7070,dns:///group-0:7070");
  EXPECT_THAT(LoadWith(with_peers)->config.cluster.peers, ElementsAre("a:7070", "dns:///group-0:7070"));
  with_peers.back() = "--cluster.peers=a:7070,b";
  EXPECT_THAT(ErrorOf(LoadWith(with_peers)), HasSubstr("target \"b\" is not HOST:PORT or dns:///HOST:PORT"));
  with_peers.back() = "--cluster.peers=a:1";
  for (int port = 2; port <= 65; ++port) with_peers.back() += ",a:" + std::to_string(port);
  EXPECT_THAT(ErrorOf(LoadWith(with_peers)), HasSubstr("has 65 servers; must have at most 64"));
  with_peers.back() = "--cluster.backups=s3://backups/maxsim/";
  EXPECT_EQ(LoadWith(with_peers)->config.cluster.backups, "s3://backups/maxsim");
  with_peers.back() = "--cluster.backups=/srv/backups";
  EXPECT_THAT(ErrorOf(LoadWith(with_peers)), HasSubstr("\"/srv/backups\" is not s3://BUCKET/PREFIX or file:///FOLDER"));
  EXPECT_THAT(ErrorOf(LoadWith({"--cluster.backups=s3://b/p"})),
              HasSubstr("cluster.backups is set, which needs live.create_from_cluster true"));
  EXPECT_THAT(ErrorOf(LoadWith({"--cluster.peers=a:7070"})),
              HasSubstr("cluster.peers is set, which needs live.create_from_cluster true"));
  with_folder.push_back("--live.restore_created=false");
  EXPECT_THAT(ErrorOf(LoadWith(with_folder)), HasSubstr("needs live.restore_created true"));
}

TEST(ConfigTest, TheHttpPortWantsTlsWhereThereIsACertificate) {
  const auto tls_with = [](const std::string& value) {
    return HttpTlsOf(LoadWith({"--tls.cert_file=c", "--tls.key_file=k", "--http.tls=" + value})->config);
  };
  EXPECT_EQ(HttpTlsOf(LoadWith({})->config), HttpTls::kOff);
  EXPECT_EQ(tls_with("auto"), HttpTls::kApi);
  EXPECT_EQ(tls_with("off"), HttpTls::kOff);
  EXPECT_EQ(tls_with("api"), HttpTls::kApi);
  EXPECT_EQ(tls_with("all"), HttpTls::kAll);
}

TEST(ConfigTest, WhatLeavesTheServerOpenIsWarnedOf) {
  EXPECT_THAT(LoadWith({})->warnings, ElementsAre(HasSubstr("grpc.address 0.0.0.0:7070 may reload and unload")));
  EXPECT_THAT(LoadWith({"--store.allowed_roots=/srv"})->warnings,
              ElementsAre(HasSubstr("grpc.address 0.0.0.0:7070 may load, reload and unload")));
  for (const char* closed : {"--grpc.address=127.0.0.1:7070", "--grpc.address=[::1]:7070", "--auth.tokens_file=/tokens",
                             "--auth.admin_tokens_file=/tokens", "--admin.enabled=false"}) {
    EXPECT_THAT(LoadWith({closed})->warnings, IsEmpty()) << closed;
  }
  const std::vector<std::string> tls = {"--tls.cert_file=c", "--tls.key_file=k", "--tls.client_ca_file=a"};
  EXPECT_THAT(LoadWith(tls)->warnings, IsEmpty());
  EXPECT_THAT(LoadWith({tls[0], tls[1], tls[2], "--http.tls=off"})->warnings,
              ElementsAre(HasSubstr("http.address 0.0.0.0:7071 is plain text")));
  EXPECT_THAT(LoadWith({tls[0], tls[1], tls[2], "--http.address="})->warnings, IsEmpty());
  EXPECT_THAT(LoadWith({tls[0], tls[1], tls[2], "--http.address=", "--grpc.unix_socket=/s"})->warnings,
              ElementsAre(HasSubstr("grpc.unix_socket /s asks for no certificate")));
}

TEST(ConfigTest, TracesAreOffUntilTheyHaveACollector) {
  const auto plain = LoadWith({});
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->config.tracing.endpoint, "");
  const auto loaded = LoadWith({"--tracing.endpoint=https://collector:4317", "--tracing.sample_ratio=0.5"},
                               {{"MAXSIM_TRACING_SERVICE_NAME", "ranker"}, {"MAXSIM_TRACING_MAX_QUEUED_SPANS", "1"}});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  EXPECT_EQ(loaded->config.tracing.endpoint, "https://collector:4317");
  EXPECT_EQ(loaded->config.tracing.sample_ratio, 0.5);
  EXPECT_EQ(loaded->config.tracing.service_name, "ranker");
  EXPECT_EQ(loaded->config.tracing.max_queued_spans, 1);
}

TEST(ConfigTest, WrongKeysOfTracesNameKeyValueAndLimit) {
  EXPECT_THAT(ErrorOf(LoadWith({"--tracing.endpoint=collector"})),
              HasSubstr("tracing.endpoint: \"collector\" is not host:port"));
  EXPECT_THAT(ErrorOf(LoadWith({"--tracing.sample_ratio=1.01"})),
              HasSubstr("tracing.sample_ratio: \"1.01\" is more than the limit 1"));
  EXPECT_THAT(ErrorOf(LoadWith({"--tracing.sample_ratio=-1"})), HasSubstr("tracing.sample_ratio: \"-1\""));
  EXPECT_THAT(ErrorOf(LoadWith({"--tracing.max_queued_spans=0"})),
              HasSubstr("tracing.max_queued_spans: \"0\" is less than the limit 1"));
  EXPECT_THAT(ErrorOf(LoadWith({"--tracing.service_name="})), HasSubstr("a name of 0 bytes; must have 1 to 128"));
  EXPECT_TRUE(LoadWith({"--tracing.service_name=" + std::string(128, 'n')}).ok());
  EXPECT_THAT(ErrorOf(LoadWith({"--tracing.service_name=" + std::string(129, 'n')})),
              HasSubstr("tracing.service_name: a name of 129 bytes"));
  EXPECT_THAT(ErrorOf(LoadWith({"--tracing.service_name=\xff"})), HasSubstr("is not UTF-8"));
}

TEST(ConfigTest, AnEncoderIsCheckedAsAWhole) {
  const auto error = [](std::vector<std::string> more) {
    std::vector<std::string> args = {"--encoder.url", "https://encoder.test:8443/base"};
    args.insert(args.end(), more.begin(), more.end());
    return ErrorOf(LoadWith(args));
  };
  EXPECT_EQ(error({}), "");
  EXPECT_THAT(error({"--encoder.url", "encoder:80"}), HasSubstr("encoder.url: \"encoder:80\" is not http://host"));
  EXPECT_THAT(error({"--encoder.dialect", "x"}), HasSubstr("encoder.dialect: \"x\" is not one of maxsim, vllm"));
  EXPECT_THAT(error({"--encoder.max_batch_texts", "0"}), HasSubstr("encoder.max_batch_texts: \"0\" is less than"));
  EXPECT_THAT(error({"--encoder.window", "2s"}), HasSubstr("encoder.window: \"2s\" is more than the limit 1s"));
  EXPECT_THAT(error({"--encoder.timeout", "0"}), HasSubstr("encoder.timeout"));
  EXPECT_THAT(error({"--encoder.dim", "4"}), HasSubstr("encoder.dim: \"4\" is neither 0 nor 8 to 4096"));
  EXPECT_THAT(error({"--encoder.dim", "5000"}), HasSubstr("encoder.dim: \"5000\" is more than"));
  EXPECT_THAT(error({"--encoder.model", std::string(2000, 'm')}), HasSubstr("2000 bytes is more than the limit 1024"));
  EXPECT_THAT(error({"--encoder.query_prefix", "q: "}), HasSubstr("an encoder.dialect other than maxsim"));
  EXPECT_EQ(error({"--encoder.query_prefix", "q: ", "--encoder.dialect", "vllm"}), "");
  EXPECT_THAT(error({"--encoder.query_prompt_name", "query", "--encoder.dialect", "vllm"}),
              HasSubstr("encoder.query_prompt_name: \"query\" is only sent in encoder.dialect tei, but it is vllm"));
  EXPECT_THAT(error({"--encoder.document_prompt_name", "d"}), HasSubstr("encoder.document_prompt_name: \"d\" is only"));
  EXPECT_EQ(error({"--encoder.query_prompt_name", "query", "--encoder.dialect", "tei"}), "");
  EXPECT_THAT(error({"--encoder.tls_cert_file", "c"}), HasSubstr("must be given together"));
  EXPECT_THAT(error({"--encoder.url", "http://a:80", "--encoder.tls_ca_file", "ca"}), HasSubstr("it is http://a:80"));
}

}  // namespace
}  // namespace maxsim::config
