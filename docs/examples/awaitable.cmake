# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-or-later
# ASIO_AWAITABLE: whether Boost.Asio has coroutines with this compiler. Boost 1.74 knows those of g++ only.
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_FLAGS -std=c++20)
set(CMAKE_REQUIRED_INCLUDES ${Boost_INCLUDE_DIRS})
check_cxx_source_compiles("#include <utility>
#include <boost/asio/awaitable.hpp>
boost::asio::awaitable<void> nothing() { co_return; }
int main() {}" ASIO_AWAITABLE)
unset(CMAKE_REQUIRED_FLAGS)
unset(CMAKE_REQUIRED_INCLUDES)
