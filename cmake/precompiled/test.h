// Headers that most test programs include; see cmake/MaxsimPrecompiled.cmake.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/precompiled/library.h"
