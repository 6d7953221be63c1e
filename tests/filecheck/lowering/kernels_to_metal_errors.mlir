// RUN: not ocannl-opt %s -t metal --split-input-file 2>&1 | filecheck %s

loops.func @wide {
  %x = assign.node "x" on_device : memref<3xf64>
  kernel.launch "x" block (i = 3) {
    %v = loops.load %x[i]
    loops.store %v, %x[i]
  }
}

// CHECK: error: {{.*}}:5:3: kernel 'x': Metal has no numbers of type f64: make data and parameters f32
