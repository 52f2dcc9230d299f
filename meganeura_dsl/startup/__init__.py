"""What makes a process start fast, each trick with its measured gain and a switch."""
