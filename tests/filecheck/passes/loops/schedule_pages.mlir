// RUN: ocannl-opt %s -p 'schedule{cores=1}' | filecheck %s

// Along `k`, each step is on another page: too many of them to go over them again for each `a`.
// CHECK-LABEL: loops.func @many_pages
// CHECK:         loops.nest "p" (a = 128, k = 2048, o = 8) schedule <order = (k, a, o), lanes = o : 8, strips = a : 8> {
loops.func @many_pages {
  %x = assign.node "x" on_device : memref<2048x1024xf32>
  %p = assign.node "p" on_device : memref<128x2048x8xf32>
  loops.nest "p" (a = 128, k = 2048, o = 8) {
    %0 = loops.load %x[k, 8*a + o]
    loops.store %0, %p[a, k, o]
  }
}

// CHECK-LABEL: loops.func @few_pages
// CHECK:         loops.nest "p" (a = 128, k = 128, o = 8) schedule <order = (a, k, o), lanes = o : 8> {
loops.func @few_pages {
  %x = assign.node "x" on_device : memref<128x1024xf32>
  %p = assign.node "p" on_device : memref<128x128x8xf32>
  loops.nest "p" (a = 128, k = 128, o = 8) {
    %0 = loops.load %x[k, 8*a + o]
    loops.store %0, %p[a, k, o]
  }
}
