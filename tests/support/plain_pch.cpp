#include "plain_pch.hpp"
