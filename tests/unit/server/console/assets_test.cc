// Tests the console's files: their bytes are those of the source tree, and none of them loads anything from another
// server.
#include "server/console/assets.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <string>

#include "tests/support/collection/corpus.h"

namespace maxsim::console {
namespace {

const std::filesystem::path kFolder = "server/console/assets";

TEST(AssetsTest, EveryFileOfTheFolderIsInTheProgramByteForByte) {
  size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const Asset* asset = FindAsset(entry.path().filename().string());
    ASSERT_NE(asset, nullptr) << entry.path() << ": server/console/CMakeLists.txt does not list it";
    EXPECT_EQ(asset->bytes, test::ReadFile(entry.path().string())) << entry.path();
    ++count;
  }
  EXPECT_GT(count, 5u);
  EXPECT_EQ(FindAsset("nothing.js"), nullptr);
  EXPECT_EQ(FindAsset(""), nullptr);
  EXPECT_EQ(FindAsset("../assets.cc"), nullptr);
}

TEST(AssetsTest, TypesAndTagsAreThoseOfTheFiles) {
  EXPECT_EQ(FindAsset("index.html")->content_type, "text/html; charset=utf-8");
  EXPECT_EQ(FindAsset("main.js")->content_type, "text/javascript; charset=utf-8");
  EXPECT_EQ(FindAsset("console.css")->content_type, "text/css; charset=utf-8");
  EXPECT_EQ(FindAsset("icon.svg")->content_type, "image/svg+xml");
  std::set<std::string> tags;
  for (const char* name : {"index.html", "main.js", "console.css", "icon.svg"}) {
    const std::string& etag = FindAsset(name)->etag;
    EXPECT_TRUE(std::regex_match(etag, std::regex("\"[0-9a-f]{32}\""))) << etag;
    EXPECT_TRUE(tags.insert(etag).second) << name;
  }
}

// The browser's content security policy would block other servers and inline code. This test finds them in the files
// before a browser does.
TEST(AssetsTest, NothingComesFromElsewhereAndNothingIsInline) {
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string text = test::ReadFile(entry.path().string());
    std::string without_names = std::regex_replace(text, std::regex("http://www\\.w3\\.org/2000/svg"), "");
    EXPECT_EQ(without_names.find("http://"), std::string::npos) << entry.path();
    EXPECT_EQ(without_names.find("https://"), std::string::npos) << entry.path();
    EXPECT_EQ(text.find("innerHTML"), std::string::npos) << entry.path();
  }
  const std::string page = test::ReadFile((kFolder / "index.html").string());
  EXPECT_EQ(page.find(" style="), std::string::npos);
  EXPECT_EQ(page.find("<style"), std::string::npos);
  EXPECT_FALSE(std::regex_search(page, std::regex("<script(?![^>]*src=)"))) << "an inline script";
  EXPECT_FALSE(std::regex_search(page, std::regex(" on[a-z]+="))) << "an inline handler";
}

TEST(AssetsTest, EveryReferenceIsToAFileThatIsThere) {
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string text = test::ReadFile(entry.path().string());
    const std::regex reference("(?:/console/|from \"\\./)([a-z]+\\.(?:js|css|svg))\"");
    for (auto it = std::sregex_iterator(text.begin(), text.end(), reference); it != std::sregex_iterator(); ++it) {
      EXPECT_NE(FindAsset((*it)[1].str()), nullptr) << entry.path() << " refers to " << (*it)[1];
    }
  }
}

}  // namespace
}  // namespace maxsim::console
