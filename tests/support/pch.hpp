// What is precompiled for the tests that use libtorch.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../../core/torch_pch.hpp"
