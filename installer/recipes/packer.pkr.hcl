# A golden image: Tracer installed and enabled, without an identity. Put the build block's provisioners last in yours.
variable "install_url" {
  type    = string
  default = "https://get.example.org/install.sh"
}

variable "endpoint" {
  type    = string
  default = "https://lake.example.org:7070"
}

source "null" "example" {
  communicator = "none"
}

build {
  sources = ["source.null.example"]

  provisioner "shell" {
    inline = [
      "curl -fsSL -o /tmp/install.sh ${var.install_url}",
      "sudo sh /tmp/install.sh --image --endpoint ${var.endpoint}",
      "rm -f /tmp/install.sh",
      "sudo truncate -s 0 /etc/machine-id"
    ]
  }
}
