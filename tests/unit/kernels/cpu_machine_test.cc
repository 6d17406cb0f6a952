// Tests how the process reads the memory and CPU time that it may use from control groups (cgroups), in the layouts of
// different systems and containers. Also tests the processor's name.
#include "kernels/cpu/machine.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

namespace maxsim::cpu {
namespace {

constexpr size_t kMiB = size_t{1} << 20;

TEST(MachineTest, ReportsWhatTheProcessMayUse) {
  EXPECT_FALSE(CpuModelName().empty());
  EXPECT_GE(AvailableCores(), 1);
  EXPECT_LE(AvailableCores(), static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_GT(MemoryBytes(), kMiB);
  EXPECT_LE(AvailableMemoryBytes(), MemoryBytes());
}

// Makes a root folder with the files of /proc and /sys that a test writes.
class CgroupTest : public testing::Test {
 protected:
  CgroupTest() {
    std::string name = (std::filesystem::temp_directory_path() / "maxsim-cgroup-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "mkdtemp " << name << " failed";
    root_ = name;
  }
  ~CgroupTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void WriteMiB(const std::string& path, size_t mib) { Write(path, std::to_string(mib * kMiB) + "\n"); }
  // Writes a group of cgroup version 2: its memory limit, its usage, and the part of the usage that is page cache.
  void WriteGroup(const std::string& group, size_t limit_mib, size_t usage_mib, size_t cache_mib) {
    const std::string folder = "/sys/fs/cgroup" + group;
    WriteMiB(folder + "/memory.max", limit_mib);
    WriteMiB(folder + "/memory.current", usage_mib);
    Write(folder + "/memory.stat", "anon 12345\nfile 999999999\ninactive_anon 1\ninactive_file " +
                                       std::to_string(cache_mib * kMiB) + "\nactive_file 7\n");
  }

  std::string root_;
};

using CpuModelNameTest = CgroupTest;

TEST_F(CpuModelNameTest, IsTheVendorsOrThatOfAnArmPart) {
  EXPECT_EQ(CpuModelName(root_), "unknown");
  Write("/proc/cpuinfo", "processor\t: 0\nmodel name\t: AMD EPYC 9654\nflags\t: fpu\n");
  EXPECT_EQ(CpuModelName(root_), "AMD EPYC 9654");
  Write("/proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\nCPU implementer\t: 0x41\nCPU part\t: 0xd4f\n");
  EXPECT_EQ(CpuModelName(root_), "Neoverse-V2");
  Write("/proc/cpuinfo", "processor\t: 0\nCPU implementer\t: 0x48\nCPU part\t: 0xd4f\n");
  EXPECT_EQ(CpuModelName(root_), "Arm implementer 0x48 part 0xd4f");
}

TEST_F(CgroupTest, WithoutLimitsThereAreNone) {
  CgroupLimits limits = ReadCgroupLimits(root_);
  EXPECT_FALSE(limits.memory_bytes || limits.free_memory_bytes || limits.cpus);
  Write("/proc/self/cgroup", "0::/user.slice/session.scope\n");
  Write("/sys/fs/cgroup/user.slice/memory.max", "max\n");
  Write("/sys/fs/cgroup/user.slice/session.scope/memory.max", "max\n");
  Write("/sys/fs/cgroup/user.slice/session.scope/cpu.max", "max 100000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  limits = ReadCgroupLimits(root_);
  EXPECT_FALSE(limits.memory_bytes || limits.free_memory_bytes || limits.cpus);
}

// The limit is 64 GiB. The process has read files of 25 GiB into its own memory, so the page cache holds the same 25
// GiB again. The system can drop the page cache, so that part must count as free.
TEST_F(CgroupTest, PageCacheOfFilesThatWereReadIsFree) {
  Write("/proc/self/cgroup", "0::/\n");
  WriteGroup("", 65536, 51200, 25600);
  Write("/sys/fs/cgroup/cpu.max", "250000 100000\n");
  const CgroupLimits limits = ReadCgroupLimits(root_);
  EXPECT_EQ(limits.memory_bytes, 65536 * kMiB);
  EXPECT_EQ(limits.free_memory_bytes, (65536 - 25600) * kMiB);
  EXPECT_EQ(limits.cpus, 2.5);
}

TEST_F(CgroupTest, MoreCacheThanUsageOrMoreUsageThanLimitIsNoUnderflow) {
  WriteGroup("", 100, 10, 20);  // the cache exceeds the usage, since the two counters are not read at the same moment
  EXPECT_EQ(ReadCgroupLimits(root_).free_memory_bytes, 100 * kMiB);
  WriteGroup("", 100, 120, 10);
  EXPECT_EQ(ReadCgroupLimits(root_).free_memory_bytes, 0u);
}

// The systemd unit and the slice that contains it both have MemoryMax= and CPUQuota=. The tighter limit must win.
TEST_F(CgroupTest, AUnitIsBoundByItselfAndByItsSlice) {
  Write("/proc/self/cgroup", "0::/system.slice/maxsimd.service\n");
  WriteGroup("/system.slice/maxsimd.service", 4096, 1024, 512);
  Write("/sys/fs/cgroup/system.slice/maxsimd.service/cpu.max", "400000 100000\n");
  CgroupLimits limits = ReadCgroupLimits(root_);
  EXPECT_EQ(limits.memory_bytes, 4096 * kMiB);
  EXPECT_EQ(limits.free_memory_bytes, 3584 * kMiB);
  EXPECT_EQ(limits.cpus, 4.0);

  // The slice has a higher limit than the unit, but other units of the slice have used most of it. So less memory is
  // free than the unit's own limit allows.
  WriteGroup("/system.slice", 8192, 7168, 0);
  Write("/sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n");
  limits = ReadCgroupLimits(root_);
  EXPECT_EQ(limits.memory_bytes, 4096 * kMiB);
  EXPECT_EQ(limits.free_memory_bytes, 1024 * kMiB);
  EXPECT_EQ(limits.cpus, 1.5);
}

TEST_F(CgroupTest, Version1HasAHierarchyForEachController) {
  Write("/proc/self/cgroup", "12:pids:/x\n5:cpu,cpuacct:/a/b\n3:memory:/docker/abc\n1:name=systemd:/y\n");
  WriteMiB("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", 2048);
  WriteMiB("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", 1000);
  Write("/sys/fs/cgroup/memory/docker/abc/memory.stat",
        "cache 1\ninactive_file 1\ntotal_inactive_file " + std::to_string(600 * kMiB) + "\n");
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/cpu/a/cpu.cfs_quota_us", "50000\n");
  Write("/sys/fs/cgroup/cpu/a/cpu.cfs_period_us", "100000\n");
  const CgroupLimits limits = ReadCgroupLimits(root_);
  EXPECT_EQ(limits.memory_bytes, 2048 * kMiB);
  EXPECT_EQ(limits.free_memory_bytes, 1648 * kMiB);
  EXPECT_EQ(limits.cpus, 0.5);
}

// Without a cgroup namespace, Docker shows the host's path but mounts the container's own group. The limits must be
// read from the mounted group.
TEST_F(CgroupTest, AContainersOwnGroupIsTheRootOfItsMount) {
  WriteGroup("", 512, 128, 28);
  for (const char* path : {"/docker/0123456789", "/../../outside", "/"}) {
    Write("/proc/self/cgroup", std::string("0::") + path + "\n");
    EXPECT_EQ(ReadCgroupLimits(root_).free_memory_bytes, 412 * kMiB) << path;
  }
}

}  // namespace
}  // namespace maxsim::cpu
