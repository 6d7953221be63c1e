// RUN: ocannl-opt %s -p narrow-nodes | filecheck %s

// Two nests store widened numbers; one that gathers reads them, too.
loops.func @widened {
  %x = assign.node "x" constant because "data" : memref<512x1024xf16>
  %ids = assign.node "ids" constant because "data" : memref<512xi32>
  %wide = assign.node "wide" local because "intermediate value" : memref<512x1024xf32>
  %y = assign.node "y" on_device because "result" : memref<512xf32>
  loops.nest "wide" (b = 512, o = 1000) {
    %0 = loops.load %x[b, o]
    %1 = arith.extf %0 : f16 to f32
    loops.store %1, %wide[b, o]
  }
  loops.nest "more" (b = 512, o = 24) {
    %2 = loops.load %x[b, o]
    %3 = arith.extf %2 : f16 to f32
    loops.store %3, %wide[b, o + 1000]
  }
  loops.nest "y" (b = 512) {
    %4 = loops.load %ids[b]
    %5, %6 = loops.position %4 below 1024
    %7 = loops.load %wide[b, %5]
    loops.store %7, %y[b]
  }
}
// CHECK-LABEL: loops.func @widened {
// CHECK:         %wide = assign.node "wide" local because "intermediate value" : memref<512x1024xf16>
// CHECK:           %[[X:.*]] = loops.load %x[b, o]
// CHECK-NEXT:      loops.store %[[X]], %wide[b, o]
// CHECK:           loops.store %{{.*}}, %wide[b, o + 1000]
// CHECK:           %[[NARROW:.*]] = loops.load %wide[b, %{{.*}}]
// CHECK-NEXT:      %[[WIDE:.*]] = arith.extf %[[NARROW]] : f16 to f32
// CHECK-NEXT:      loops.store %[[WIDE]], %y[b]

// Nothing is changed of nodes that are seen, small, factors of a product, or stored to as f32 or as another type, too.
loops.func @others {
  %x = assign.node "x" constant because "data" : memref<512x1024xbf16>
  %h = assign.node "h" constant because "data" : memref<512x1024xf16>
  %w = assign.node "w" constant because "data" : memref<512x1024xf32>
  %seen = assign.node "seen" on_device because "result" : memref<512x1024xf32>
  %small = assign.node "small" local because "intermediate value" : memref<64x1024xf32>
  %factor = assign.node "factor" local because "intermediate value" : memref<512x1024xf32>
  %mixed = assign.node "mixed" local because "intermediate value" : memref<512x1024xf32>
  %both = assign.node "both" local because "intermediate value" : memref<512x1024xf32>
  %y = assign.node "y" on_device because "result" : memref<512x512xf32>
  loops.nest "seen" (b = 512, o = 1024) {
    %0 = loops.load %x[b, o]
    %1 = arith.extf %0 : bf16 to f32
    loops.store %1, %seen[b, o]
    loops.store %1, %factor[b, o]
    loops.store %1, %mixed[b, o]
    loops.store %1, %both[b, o]
  }
  loops.nest "small" (b = 64, o = 1024) {
    %2 = loops.load %x[b, o]
    %3 = arith.extf %2 : bf16 to f32
    loops.store %3, %small[b, o]
  }
  loops.nest "more" (b = 512, o = 1024) {
    %4 = loops.load %w[b, o]
    loops.store %4, %mixed[b, o]
    %5 = loops.load %h[b, o]
    %6 = arith.extf %5 : f16 to f32
    loops.store %6, %both[b, o]
  }
  loops.nest "y" (b = 512, c = 512) {
    %7 = loops.reduce add (o = 1024) : f32 {
      %8 = loops.load %factor[b, o]
      %9 = loops.load %w[c, o]
      %10 = arith.mulf %8, %9 : f32
      loops.yield %10
    }
    loops.store %7, %y[b, c]
  }
}
// CHECK-LABEL: loops.func @others {
// CHECK-NOT:     local because {{.*}} : memref<{{[0-9x]+}}{{bf16|f16}}>
// CHECK:         loops.nest "seen"
