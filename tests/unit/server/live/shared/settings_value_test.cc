// The value of the key with a collection's settings.
#include "server/live/shared/settings_value.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/error_details.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/small_stack.h"

namespace maxsim::live {
namespace {

using collection::FieldKind;
using store::SharedSettings;
using testing::HasSubstr;

SharedSettings FullSettings() {
  SharedSettings settings;
  settings.options = {.name = "docs",
                      .dim = 96,
                      .storage = ScalarType::kI8,
                      .id_type = collection::IdType::kInt64,
                      .encoder = collection::EncoderIdentity{.model = "a/b", .fingerprint = "f", .dim = 96},
                      .codes = collection::CodesFormat{.planes = 2, .factors = true},
                      .fields = {{"lang", FieldKind::kKeyword, "meta.lang"}, {"year", FieldKind::kInteger, "year"}}};
  settings.residency = store::Residency::kHost;
  settings.replicate = true;
  settings.is_partitioned = true;
  settings.group = "g0";
  return settings;
}

std::string Minimal(const std::string& member, const std::string& value) {
  std::vector<std::pair<std::string, std::string>> members = {{"dim", "8"},
                                                              {"storage", "\"f16\""},
                                                              {"id_type", "\"string\""},
                                                              {"codes", "null"},
                                                              {"fields", "[]"},
                                                              {"encoder", "null"},
                                                              {"residency", "\"auto\""},
                                                              {"replicate", "false"},
                                                              {"partitioned", "false"},
                                                              {"group", "\"\""}};
  std::string text = "{";
  for (const auto& [name, given] : members) {
    const std::string& used = name == member ? value : given;
    if (!used.empty()) absl::StrAppend(&text, text.size() > 1 ? ", " : "", "\"", name, "\": ", used);
  }
  return text + "}";
}

TEST(SettingsValueTest, WhatIsWrittenIsReadAgain) {
  const SharedSettings settings = FullSettings();
  const std::string value = FormatSettingsValue(settings);
  const auto read = ParseSettingsValue("docs", value);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(FormatSettingsValue(*read), value);
  EXPECT_EQ(read->options.name, "docs");
  EXPECT_EQ(read->options.dim, 96);
  EXPECT_EQ(read->options.storage, ScalarType::kI8);
  EXPECT_EQ(read->options.id_type, collection::IdType::kInt64);
  EXPECT_EQ(read->options.codes, settings.options.codes);
  EXPECT_EQ(read->options.fields, settings.options.fields);
  EXPECT_EQ(read->options.encoder, settings.options.encoder);
  EXPECT_EQ(read->residency, store::Residency::kHost);
  EXPECT_TRUE(read->replicate);
  EXPECT_TRUE(read->is_partitioned);
  EXPECT_EQ(read->group, "g0");
  EXPECT_TRUE(CheckSameSettings(settings, *read).ok());
}

TEST(SettingsValueTest, TheLargestSettingsFit) {
  SharedSettings settings = FullSettings();
  settings.options.fields.clear();
  for (size_t i = 0; i < collection::kMaxFields; ++i) {
    const std::string name = absl::StrCat("f", i, std::string(collection::kMaxFieldNameBytes - 4, 'x'));
    settings.options.fields.push_back(
        {name, FieldKind::kKeywords, absl::StrCat(name, std::string(collection::kMaxFieldPathBytes - 64, 'y'))});
  }
  settings.options.encoder->model = std::string(collection::kMaxEncoderTextBytes, '"');
  settings.options.encoder->fingerprint = std::string(collection::kMaxEncoderTextBytes, '\x01');
  const std::string value = FormatSettingsValue(settings);
  EXPECT_LT(value.size(), kMaxSettingsValueBytes);
  const auto read = ParseSettingsValue("docs", value);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_TRUE(CheckSameSettings(settings, *read).ok());
}

TEST(SettingsValueTest, MembersOfLaterVersionsAreIgnored) {
  std::string value = Minimal("", "");
  value.insert(1, "\"by\": {\"x\": 1}, ");
  const auto read = ParseSettingsValue("docs", value);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->options.dim, 8);
  EXPECT_FALSE(read->options.codes.has_value());
  EXPECT_FALSE(read->options.encoder.has_value());
}

TEST(SettingsValueTest, AValueWithoutAVersionHasVersion1AndLaterVersionsAreRefused) {
  EXPECT_THAT(FormatSettingsValue(FullSettings()), HasSubstr("\"format_version\":1"));
  const std::string settings = Minimal("", "").substr(1);
  EXPECT_TRUE(ParseSettingsValue("docs", "{" + settings).ok());
  EXPECT_TRUE(ParseSettingsValue("docs", R"({"format_version": 1, )" + settings).ok());
  for (const std::string& version : std::vector<std::string>{"0", "2", "\"1\"", "null", "1.5"}) {
    const absl::Status status =
        ParseSettingsValue("docs", R"({"format_version": )" + version + ", " + settings).status();
    EXPECT_EQ(status, absl::InvalidArgumentError("format_version: " + version + "; this version reads 1"));
  }
}

TEST(SettingsValueTest, AWrongValueIsRefusedWithTheReason) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[1]", "the value [1] is not a JSON object"},
      {"{", "is not a JSON object"},
      {Minimal("dim", ""), "dim is not there"},
      {Minimal("dim", "null"), "dim is null; must be a whole number from 8 to 4096"},
      {Minimal("dim", "7"), "dim is 7; must be a whole number from 8 to 4096"},
      {Minimal("dim", "4097"), "dim is 4097; must be a whole number from 8 to 4096"},
      {Minimal("dim", "18446744073709551615"), "dim is 18446744073709551615; must be"},
      {Minimal("dim", "8.5"), "dim is 8.5; must be a whole number"},
      {Minimal("storage", "\"residual2\""), "storage is \"residual2\"; must be f32, f16, bf16 or i8"},
      {Minimal("storage", "1"), "storage is 1; must be f32, f16, bf16 or i8"},
      {Minimal("id_type", "\"uuid\""), "id_type is \"uuid\"; must be string or int64"},
      {Minimal("codes", "[]"), "codes is not an object"},
      {Minimal("codes", "{\"planes\": 3, \"factors\": false}"), "codes.planes is 3; must be 1, 2 or 4"},
      {Minimal("codes", "{\"planes\": 4}"), "codes.factors is not there"},
      {Minimal("fields", "{}"), "fields is not a list"},
      {Minimal("fields", "[7]"), "fields[0] is not an object"},
      {Minimal("fields", R"([{"name": "a", "kind": "text", "path": "a"}])"), "fields[0].kind is \"text\"; must be"},
      {Minimal("fields", R"([{"name": "a", "kind": "keyword"}])"), "fields[0].path is not there"},
      {Minimal("fields", R"([{"name": "a b", "kind": "keyword", "path": "a"}])"), "fields: "},
      {Minimal("encoder", "{\"model\": \"m\"}"), "encoder.fingerprint is not there"},
      {Minimal("residency", "\"ram\""), "residency is \"ram\"; must be auto, gpu, host or disk"},
      {Minimal("replicate", "1"), "replicate is 1; must be true or false"},
      {Minimal("partitioned", ""), "partitioned is not there"},
      {Minimal("group", "[]"), "group is a list; must be a text of at most 64 bytes"},
      {std::string(kMaxSettingsValueBytes + 1, ' '), absl::StrCat("must have at most ", kMaxSettingsValueBytes)},
  };
  for (const auto& [value, reason] : cases) {
    const absl::Status status = ParseSettingsValue("docs", value).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << value;
    EXPECT_THAT(std::string(status.message()), HasSubstr(reason)) << value;
  }
}

// Returns a settings value of at most kMaxSettingsValueBytes in which `member` has lists or objects nested very deeply.
std::string Nested(const std::string& member, const std::string& begin, const std::string& end) {
  const size_t num_levels = (kMaxSettingsValueBytes - 512) / (begin.size() + end.size());
  std::string value;
  for (size_t i = 0; i < num_levels; ++i) value += begin;
  value += "0";
  for (size_t i = 0; i < num_levels; ++i) value += end;
  return Minimal(member, value);
}

TEST(SettingsValueTest, DeeplyNestedValuesAreRefusedOnASmallStack) {
  for (const std::string& member : std::vector<std::string>{"dim", "storage", "replicate", "group"}) {
    for (const auto& [begin, end, type] :
         std::vector<std::array<std::string, 3>>{{"[", "]", "a list"}, {"{\"a\":", "}", "an object"}}) {
      const std::string value = Nested(member, begin, end);
      ASSERT_LT(value.size(), kMaxSettingsValueBytes);
      absl::Status status;
      test::RunOnSmallStack([&] { status = ParseSettingsValue("docs", value).status(); });
      EXPECT_THAT(std::string(status.message()), HasSubstr(absl::StrCat(member, " is ", type, "; must be ")));
    }
  }
}

TEST(SettingsValueTest, ADifferenceNamesTheFieldAndBothValues) {
  const SharedSettings shared = FullSettings();
  const auto expect_field = [&](const SharedSettings& wanted, const std::string& field, const std::string& problem) {
    const absl::Status status = CheckSameSettings(wanted, shared);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << field << ": " << status;
    EXPECT_EQ(client::FieldOf(status), field);
    EXPECT_THAT(std::string(status.message()), HasSubstr(problem));
  };
  SharedSettings wanted = shared;
  wanted.options.dim = 128;
  expect_field(wanted, "dim", "dim: is \"128\", but collection docs of this cluster has \"96\"");
  wanted = shared;
  wanted.options.storage = ScalarType::kF16;
  expect_field(wanted, "storage", "is \"f16\", but collection docs of this cluster has \"i8\"");
  wanted = shared;
  wanted.options.id_type = collection::IdType::kString;
  expect_field(wanted, "id_type", "is \"string\"");
  wanted = shared;
  wanted.options.codes.reset();
  expect_field(wanted, "code_planes", "is \"0\", but collection docs of this cluster has \"2\"");
  wanted = shared;
  wanted.options.codes->factors = false;
  expect_field(wanted, "code_factors", "is \"false\"");
  wanted = shared;
  wanted.options.fields.pop_back();
  expect_field(wanted, "fields", "is \"lang:keyword=meta.lang\"");
  wanted = shared;
  wanted.options.encoder.reset();
  expect_field(wanted, "encoder.model", "is \"\", but collection docs of this cluster has \"a/b\"");
  wanted = shared;
  wanted.options.encoder->fingerprint = "g";
  expect_field(wanted, "encoder.fingerprint", "is \"g\"");
}

TEST(SettingsValueTest, ServersMayDifferInWhatIsTheirOwn) {
  SharedSettings wanted = FullSettings();
  wanted.residency = store::Residency::kDisk;
  wanted.replicate = false;
  wanted.is_partitioned = false;
  wanted.group = "g1";
  wanted.options.created_by = "another version";
  wanted.options.partition = collection::SlotRange{.first = 0, .end = 2048};
  EXPECT_TRUE(CheckSameSettings(wanted, FullSettings()).ok());
}

TEST(SettingsValueTest, LongTextsThatDifferAtTheirEndsAreDifferent) {
  SharedSettings shared = FullSettings();
  shared.options.encoder->model = std::string(500, 'm') + "1";
  SharedSettings wanted = shared;
  wanted.options.encoder->model.back() = '2';
  EXPECT_EQ(client::FieldOf(CheckSameSettings(wanted, shared)), "encoder.model");
}

}  // namespace
}  // namespace maxsim::live
