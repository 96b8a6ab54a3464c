# A golden image: Tracer installed and enabled, without an identity. As it stands it prepares a machine that SSH reaches;
# for an image of yours, put its provisioner last in your build block.
variable "install_url" {
  type    = string
  default = "https://get.example.org/install.sh"
}

variable "endpoint" {
  type    = string
  default = "https://lake.example.org:7070"
}

variable "host" {
  type    = string
  default = "template.example.org"
}

variable "port" {
  type    = number
  default = 22
}

variable "user" {
  type    = string
  default = "admin"
}

variable "key_file" {
  type    = string
  default = ""
}

source "null" "machine" {
  ssh_host             = var.host
  ssh_port             = var.port
  ssh_username         = var.user
  ssh_private_key_file = var.key_file
  ssh_agent_auth       = var.key_file == ""
}

build {
  sources = ["source.null.machine"]

  provisioner "shell" {
    inline = [
      "curl -fsSL -o /tmp/install.sh ${var.install_url}",
      "sudo sh /tmp/install.sh --image --endpoint ${var.endpoint}",
      "rm -f /tmp/install.sh",
      "sudo truncate -s 0 /etc/machine-id"
    ]
  }
}
