// RUN: not ocannl-opt %s -p partition 2>&1 | filecheck %s

// What is asked is checked where nothing is divided, too: on one rank, and on one device.

texpr.routine @one_device {
  %x = texpr.data "x" shard <"data" = output 0> : !texpr.tensor<3 | 8, f32>
  %y = texpr.data "y" shard <"data" = output 7> : !texpr.tensor<3 | 8, f32>
}

// CHECK: error: {{.*}}:7:3: `y` has no axis 7 in its output row to split over "data": its shape is 3|8
