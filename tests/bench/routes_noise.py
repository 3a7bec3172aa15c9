"""How late the machine itself is: sleeps for a millisecond again and again until stdin ends, and prints the longest delay
since the first line of stdin, in milliseconds. What is measured beside it cannot be blamed for less. Run by
routes_run.py."""
import select
import sys
import time


def main():
    longest = 0
    while True:
        due = time.monotonic_ns() + 1_000_000
        time.sleep(0.001)
        longest = max(longest, time.monotonic_ns() - due)
        if select.select([sys.stdin], [], [], 0)[0]:
            if not sys.stdin.readline():
                break
            longest = 0
    print(longest / 1e6)


main()
